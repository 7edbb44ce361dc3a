// Bench is grpc-go in `make bench`: the echo server that clients call, or a client of one.
//
//	bench server
//	bench client ORDERS
//
// The server prints its address. The orders are those of tests/bench/measure.py, and so is the client's answer. Messages
// are bytes, which nobody encodes, as they are for the clients in Python.
package main

import (
	"log"
	"os"

	"google.golang.org/grpc/mem"
)

const method = "/bench.Echo/Unary"

// rawBytes is a codec for messages that are bytes already.
type rawBytes struct{}

func (rawBytes) Name() string { return "proto" }

func (rawBytes) Marshal(message any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*message.(*[]byte))}, nil
}

func (rawBytes) Unmarshal(data mem.BufferSlice, message any) error {
	*message.(*[]byte) = data.Materialize()
	return nil
}

func main() {
	switch {
	case len(os.Args) == 2 && os.Args[1] == "server":
		serve()
	case len(os.Args) == 3 && os.Args[1] == "client":
		call(os.Args[2])
	default:
		log.Fatal("usage: bench server | bench client ORDERS")
	}
}
