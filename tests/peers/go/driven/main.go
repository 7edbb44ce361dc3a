// A grpc-go client that obeys, as tests/peers/grpcio_driven.py does: a line of JSON on stdin is a command, and gets a
// line on stdout.
//
//	["begin", service config, {}], ["addresses", [address, ...]], ["calls", [[path, [], times], ...], timeout],
//	["open", name, path, timeout], ["shut", name]
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"log"
	"os"
	"time"

	"google.golang.org/grpc"
	_ "google.golang.org/grpc/balancer/leastrequest"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
)

// outcome is a code, the reply or the message, and nothing for set-cookie.
type outcome [3]any

func made(reply []byte, err error) outcome {
	if err == nil {
		return outcome{"OK", string(reply), []string{}}
	}
	return outcome{status.Code(err).String(), status.Convert(err).Message(), []string{}}
}

type driven struct {
	channel  *grpc.ClientConn
	resolver *manual.Resolver
	streams  map[string]context.CancelFunc
}

func (d *driven) call(path string, timeout float64) outcome {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(timeout*float64(time.Second)))
	defer cancel()
	request, reply := []byte("x"), []byte(nil)
	err := d.channel.Invoke(ctx, path, &request, &reply, grpc.WaitForReady(true))
	return made(reply, err)
}

func (d *driven) open(name, path string) outcome {
	ctx, cancel := context.WithCancel(context.Background())
	d.streams[name] = cancel
	description := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	stream, err := d.channel.NewStream(ctx, description, path, grpc.WaitForReady(true))
	request, reply := []byte("x"), []byte(nil)
	if err == nil {
		err = stream.SendMsg(&request)
	}
	if err == nil {
		err = stream.RecvMsg(&reply)
	}
	return made(reply, err)
}

func (d *driven) obey(command []any) any {
	switch command[0] {
	case "begin":
		d.resolver = manual.NewBuilderWithScheme("driven")
		channel, err := grpc.NewClient(
			"driven:///",
			grpc.WithResolvers(d.resolver),
			grpc.WithDefaultServiceConfig(command[1].(string)),
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawBytes{})),
		)
		if err != nil {
			log.Fatal(err)
		}
		d.channel, d.streams = channel, map[string]context.CancelFunc{}
		d.resolver.InitialState(resolver.State{})
		channel.Connect()
		return nil
	case "addresses":
		state := resolver.State{}
		for _, each := range command[1].([]any) {
			address := resolver.Address{Addr: each.(string)}
			state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{address}})
		}
		d.resolver.UpdateState(state)
		return nil
	case "calls":
		answers := [][]outcome{}
		for _, each := range command[1].([]any) {
			wanted, outcomes := each.([]any), []outcome{}
			for range int(wanted[2].(float64)) {
				outcomes = append(outcomes, d.call(wanted[0].(string), command[2].(float64)))
			}
			answers = append(answers, outcomes)
		}
		return answers
	case "open":
		return d.open(command[1].(string), command[2].(string))
	case "shut":
		d.streams[command[1].(string)]()
		return nil
	}
	log.Fatal(command)
	return nil
}

func main() {
	d, lines, answers := &driven{}, bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var command []any
		if err := json.Unmarshal(lines.Bytes(), &command); err != nil {
			log.Fatal(err)
		}
		if err := answers.Encode(d.obey(command)); err != nil {
			log.Fatal(err)
		}
	}
}

// rawBytes is a codec for messages that are bytes.
type rawBytes struct{}

func (rawBytes) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (rawBytes) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

func (rawBytes) Name() string { return "proto" }
