// gRPC's interop test service on grpc-js, in a process of its own: prints its port, serves until stdin is closed.
//
//   node server.js FILE_DESCRIPTOR_SET
//
// A grpc-js server compresses nothing, and cannot see whether a request came compressed: compressed.js can.
'use strict';

const fs = require('fs');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const INITIAL = 'x-grpc-test-echo-initial';
const TRAILING = 'x-grpc-test-echo-trailing-bin';

const payload = (size) => ({ body: Buffer.alloc(size) });

function echo(call) {
  const initial = call.metadata.get(INITIAL);
  if (initial.length) {
    const metadata = new grpc.Metadata();
    metadata.set(INITIAL, initial[0]);
    call.sendMetadata(metadata);
  }
  const trailing = new grpc.Metadata();
  for (const value of call.metadata.get(TRAILING)) trailing.add(TRAILING, value);
  return trailing;
}

const load = new grpc.ServerMetricRecorder();

// The loader takes a descriptor's maps for lists of their entries.
const map = (entries) => Object.fromEntries(entries.map(({ key, value }) => [key, value]));

function recordForCall(recorder, report) {
  if (!report) return;
  recorder.recordCPUUtilizationMetric(report.cpu_utilization);
  recorder.recordMemoryUtilizationMetric(report.memory_utilization);
  for (const [name, value] of Object.entries(map(report.request_cost))) recorder.recordRequestCostMetric(name, value);
  for (const [name, value] of Object.entries(map(report.utilization))) recorder.recordUtilizationMetric(name, value);
}

function recordForServer(report) {
  if (!report) return;
  load.setCpuUtilizationMetric(report.cpu_utilization);
  load.setAllUtilizationMetrics(map(report.utilization));
  load.message.mem_utilization = report.memory_utilization; // for which it has no method
}

function asked(request) {
  const status = request.response_status;
  return status ? { code: status.code, details: status.message } : null;
}

function answer(call, request) {
  const wanted = asked(request);
  if (wanted) return call.emit('error', wanted);
  recordForServer(request.orca_oob_report);
  for (const each of request.response_parameters) call.write({ payload: payload(each.size) });
}

const service = {
  EmptyCall: (call, reply) => reply(null, {}),
  UnaryCall(call, reply) {
    const trailing = echo(call);
    recordForCall(call.getMetricsRecorder(), call.request.orca_per_query_report);
    const server_id = call.request.fill_server_id ? 'node' : '';
    const message = { payload: payload(call.request.response_size), server_id };
    reply(asked(call.request), message, trailing);
  },
  StreamingOutputCall(call) {
    answer(call, call.request);
    call.end(echo(call));
  },
  StreamingInputCall(call, reply) {
    let total = 0;
    call.on('data', (request) => { total += request.payload.body.length; });
    call.on('end', () => reply(null, { aggregated_payload_size: total }));
  },
  FullDuplexCall(call) {
    const trailing = echo(call);
    call.on('data', (request) => answer(call, request));
    call.on('end', () => call.end(trailing));
  },
};

const definitions = loader.loadFileDescriptorSetFromBuffer(fs.readFileSync(process.argv[2]), { keepCase: true, defaults: true });
const server = new grpc.Server({ 'grpc.server_call_metric_recording': 1 });
const { UnimplementedCall, ...methods } = definitions['grpc.testing.TestService'];
server.addService(methods, service);
load.addToServer(server);
server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) => {
  if (error) throw error;
  console.log(port);
});
process.stdin.on('end', () => process.exit(0)).resume();
