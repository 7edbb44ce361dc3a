package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/internal"
	"google.golang.org/grpc/internal/xds/bootstrap"
	"google.golang.org/grpc/internal/xds/xdsclient"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"
)

// outcome is a code, the reply or the details, and an empty list where grpcio's has cookies.
type outcome [3]any

var pending = outcome{"PENDING", "", []string{}}

// background is a call under way. Its channels have room for all that one step of a history sends.
type background struct {
	cancel   context.CancelFunc
	requests chan []byte
	outcomes chan outcome
}

type client struct {
	channel *grpc.ClientConn
	waiting map[string]*background
	streams map[string]*background
}

// seconds are what the other clients take as a number.
type seconds float64

func (s seconds) duration() time.Duration { return time.Duration(float64(s) * float64(time.Second)) }

func newClient(target string, options map[string]seconds) *client {
	config, err := bootstrap.GetConfiguration()
	check(err)
	pool := xdsclient.NewPool(config)
	// The second value would close the client, which is used until the process ends.
	xds, _, err := pool.NewClientForTesting(xdsclient.OptionsForTesting{
		Name: target, WatchExpiryTimeout: options["resource_timeout"].duration(),
	})
	check(err)
	builder, err := internal.NewXDSResolverWithClientForTesting.(func(xdsclient.XDSClient) (resolver.Builder, error))(xds)
	check(err)
	delay := options["backoff"].duration()
	channel, err := grpc.NewClient(
		target,
		grpc.WithResolvers(builder),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawBytes{})),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: delay, Multiplier: 1, MaxDelay: delay},
			MinConnectTimeout: options["connect_timeout"].duration(),
		}),
	)
	check(err)
	return &client{channel, map[string]*background{}, map[string]*background{}}
}

func (c *client) call(ctx context.Context, path string, options ...grpc.CallOption) outcome {
	var reply []byte
	if err := c.channel.Invoke(ctx, path, []byte("x"), &reply, options...); err != nil {
		return failed(err)
	}
	return succeeded(reply)
}

// order is a list in JSON: a path, metadata, and how many calls to make.
type order struct {
	path     string
	metadata [][2]string
	times    int
}

func (o *order) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&o.path, &o.metadata, &o.times})
}

func (c *client) calls(orders []order, timeout seconds) [][]outcome {
	found := make([][]outcome, len(orders))
	for number, order := range orders {
		for range order.times {
			ctx, cancel := context.WithTimeout(with(order.metadata), timeout.duration())
			found[number] = append(found[number], c.call(ctx, order.path))
			cancel()
		}
	}
	return found
}

func (c *client) wait(name, path string, deadline *seconds) {
	ctx, cancel := context.WithCancel(context.Background())
	if deadline != nil {
		ctx, cancel = context.WithTimeout(ctx, deadline.duration())
	}
	call := &background{cancel: cancel, outcomes: make(chan outcome, 1)}
	c.waiting[name] = call
	go func() { call.outcomes <- c.call(ctx, path, grpc.WaitForReady(true)) }()
}

func (c *client) open(name, path string) {
	ctx, cancel := context.WithCancel(context.Background())
	stream := &background{cancel, make(chan []byte, 10), make(chan outcome, 10)}
	c.streams[name] = stream
	go func() {
		call, err := c.channel.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, path)
		if err != nil {
			stream.outcomes <- failed(err)
			return
		}
		go func() {
			for {
				select {
				case request := <-stream.requests:
					_ = call.SendMsg(request) // RecvMsg says why not
				case <-ctx.Done():
					return
				}
			}
		}()
		for {
			var reply []byte
			switch err := call.RecvMsg(&reply); err {
			case nil:
				stream.outcomes <- succeeded(reply)
			case io.EOF:
				stream.outcomes <- outcome{"OVER", "", []string{}}
				return
			default:
				stream.outcomes <- failed(err)
				return
			}
		}
	}()
}

func (c *client) talk(name string, timeout seconds) outcome {
	stream := c.streams[name]
	stream.requests <- []byte("x")
	return stream.outcome(timeout)
}

func (b *background) outcome(timeout seconds) outcome {
	select {
	case found := <-b.outcomes:
		return found
	case <-time.After(timeout.duration()):
		return pending
	}
}

func with(pairs [][2]string) context.Context {
	sent := metadata.MD{}
	for _, pair := range pairs {
		sent.Append(pair[0], pair[1])
	}
	return metadata.NewOutgoingContext(context.Background(), sent)
}

func succeeded(reply []byte) outcome { return outcome{"OK", string(reply), []string{}} }

func failed(err error) outcome {
	found := status.Convert(err)
	return outcome{nameOf(found.Code()), found.Message(), []string{}}
}

// obey reads commands, a line of JSON each, and answers each with a line.
func obey() {
	var driven *client
	answers := json.NewEncoder(os.Stdout)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var command []json.RawMessage
		check(json.Unmarshal(lines.Bytes(), &command))
		var operation, name, path string
		take(command[:1], &operation)
		var answer any
		switch arguments := command[1:]; operation {
		case "begin":
			var options map[string]seconds
			take(arguments, &name, &options)
			driven = newClient(name, options)
		case "calls":
			var orders []order
			var timeout seconds
			take(arguments, &orders, &timeout)
			answer = driven.calls(orders, timeout)
		case "wait":
			var deadline *seconds
			take(arguments, &name, &path, &deadline)
			driven.wait(name, path, deadline)
		case "waited":
			var timeout seconds
			take(arguments, &name, &timeout)
			answer = driven.waiting[name].outcome(timeout)
		case "forget":
			take(arguments, &name)
			driven.waiting[name].cancel()
		case "open":
			var timeout seconds
			take(arguments, &name, &path, &timeout)
			driven.open(name, path)
			answer = driven.talk(name, timeout)
		case "talk":
			var timeout seconds
			take(arguments, &name, &timeout)
			answer = driven.talk(name, timeout)
		case "shut":
			take(arguments, &name)
			driven.streams[name].cancel()
		}
		check(answers.Encode(answer))
	}
}

func take(arguments []json.RawMessage, into ...any) {
	for number, argument := range arguments {
		check(json.Unmarshal(argument, into[number]))
	}
}
