// Client is a client of grpc-go that does what the tests say, as grpcio's does in tests/peers.
//
//	client          obeys commands, as grpcio_driven.py
//	client AT_ONCE  plays orders, as grpcio_outcomes.py
package main

import (
	"log"
	"os"
	"strconv"

	code "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	_ "google.golang.org/grpc/xds"
)

func main() {
	if len(os.Args) == 1 {
		obey()
		return
	}
	atOnce, err := strconv.Atoi(os.Args[1])
	check(err)
	play(atOnce)
}

// nameOf has the names that all languages have for codes in common.
func nameOf(found codes.Code) string { return code.Code(found).String() }

// rawBytes is for methods without messages of their own. Its name is empty, so the content-type is application/grpc.
type rawBytes struct{}

func (rawBytes) Name() string { return "" }

func (rawBytes) Marshal(message any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(message.([]byte))}, nil
}

func (rawBytes) Unmarshal(data mem.BufferSlice, into any) error {
	*into.(*[]byte) = append([]byte{}, data.Materialize()...) // not nil, which would be null in JSON
	return nil
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
