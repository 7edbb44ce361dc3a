// A grpc-js client in a process of its own: orders of two_clients.py as JSON on stdin, what came of them on stdout.
//
//   node outcomes.js CHANNELS_AT_ONCE
//
// It makes unary calls only, one after the other on each channel.
'use strict';

const fs = require('fs');
const grpc = require('@grpc/grpc-js');

const PATIENCE = 8; // seconds for one call, connecting included
const asItIs = (bytes) => bytes;

function outcome(client, { path, messages = [''], metadata = [], timeout = PATIENCE, wait_for_ready = false }) {
  const sent = new grpc.Metadata({ waitForReady: Boolean(wait_for_ready) });
  for (const [key, value] of metadata) sent.add(key, value);
  const options = { deadline: Date.now() + timeout * 1000 };
  const began = Date.now();
  return new Promise((resolve) => {
    let end;
    let reply;
    const finish = () => {
      if (!end || reply === undefined) return;
      resolve({
        code: grpc.status[end.code],
        message: end.details,
        replies: reply ? [reply.toString('base64')] : [],
        seconds: (Date.now() - began) / 1000,
      });
    };
    const request = Buffer.from(messages[0], 'base64');
    const call = client.makeUnaryRequest(path, asItIs, asItIs, request, sent, options, (error, message) => {
      reply = error ? null : message;
      finish();
    });
    call.on('status', (status) => {
      end = status;
      finish();
    });
  });
}

async function play(order) {
  const options = { ...order.options };
  if (order.service_config !== null) options['grpc.service_config'] = JSON.stringify(order.service_config);
  const client = new grpc.Client(order.target, grpc.credentials.createInsecure(), options);
  const outcomes = [];
  for (const call of order.calls) outcomes.push(await outcome(client, call));
  client.close();
  return outcomes;
}

async function main() {
  const orders = JSON.parse(fs.readFileSync(0, 'utf8'));
  const done = [];
  let next = 0;
  const worker = async () => {
    while (next < orders.length) {
      const number = next++;
      done[number] = await play(orders[number]);
    }
  };
  await Promise.all(Array.from({ length: Number(process.argv[2]) }, worker));
  process.stdout.write(JSON.stringify(done));
}

main();
