// The feature CompressedRequest of gRPC's interop test service, by hand on Node's HTTP/2, where the flag of each message is seen.
// Prints its port, serves until stdin is closed.
//
//   node compressed.js FILE_DESCRIPTOR_SET
'use strict';

const fs = require('fs');
const http2 = require('http2');
const zlib = require('zlib');
const loader = require('@grpc/proto-loader');

const INVALID_ARGUMENT = '3';
const unpack = { gzip: zlib.gunzipSync, deflate: zlib.inflateSync };

// [{ compressed, body }] of all that a request has in it
function messages(bytes, encoding) {
  const found = [];
  for (let at = 0; at < bytes.length;) {
    const compressed = bytes[at] === 1;
    const end = at + 5 + bytes.readUInt32BE(at + 1);
    const body = bytes.subarray(at + 5, end);
    found.push({ compressed, body: compressed ? unpack[encoding](body) : body });
    at = end;
  }
  return found;
}

function frame(body) {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(body.length, 1);
  return Buffer.concat([prefix, body]);
}

const replies = {
  UnaryCall: ([request]) => ({ payload: { body: Buffer.alloc(request.response_size) } }),
  StreamingInputCall: (requests) => ({
    aggregated_payload_size: requests.reduce((total, request) => total + request.payload.body.length, 0),
  }),
};

const definitions = loader.loadFileDescriptorSetFromBuffer(fs.readFileSync(process.argv[2]), { keepCase: true, defaults: true });
const server = http2.createServer();
server.on('stream', (stream, headers) => {
  const name = headers[':path'].split('/')[2];
  const method = definitions['grpc.testing.TestService'][name];
  const chunks = [];
  stream.on('data', (chunk) => chunks.push(chunk));
  stream.on('end', () => {
    const received = messages(Buffer.concat(chunks), headers['grpc-encoding']);
    const requests = received.map((message) => method.requestDeserialize(message.body));
    const wrong = requests.findIndex((each, i) => each.expect_compressed && each.expect_compressed.value !== received[i].compressed);
    const start = { ':status': 200, 'content-type': 'application/grpc' };
    if (wrong >= 0) {
      stream.respond({ ...start, 'grpc-status': INVALID_ARGUMENT, 'grpc-message': `message ${wrong} is not as announced` }, { endStream: true });
      return;
    }
    stream.respond(start, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
    stream.end(frame(method.responseSerialize(replies[name](requests))));
  });
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
process.stdin.on('end', () => process.exit(0)).resume();
