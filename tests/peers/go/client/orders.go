package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	xdscreds "google.golang.org/grpc/credentials/xds"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const patience seconds = 8 // for one call, connecting included

// channelOrder is a channel, and the calls that are made on it one after the other: Order of tests/support/two_clients.py.
type channelOrder struct {
	Target        string
	Calls         []callOrder
	ServiceConfig json.RawMessage `json:"service_config"`
	Ours          struct {
		MaxReceiveSize *int `json:"max_receive_size"`
		MaxSendSize    *int `json:"max_send_size"`
	}
	Linger seconds
}

type callOrder struct {
	Path         string
	Kind         string
	Messages     [][]byte
	Metadata     [][2]string
	Timeout      *seconds
	WaitForReady bool `json:"wait_for_ready"`
	Compression  int
	At           seconds
	AtOnce       int `json:"at_once"`
}

// UnmarshalJSON has a call without a timeout wait for `patience`, and one whose timeout is null for ever.
func (o *callOrder) UnmarshalJSON(data []byte) error {
	type fields callOrder // without this method
	timeout := patience
	*o = callOrder{Timeout: &timeout, Messages: [][]byte{{}}}
	return json.Unmarshal(data, (*fields)(o))
}

type callOutcome struct {
	Code     string      `json:"code"`
	Message  string      `json:"message"`
	Initial  [][2]string `json:"initial,omitempty"`
	Trailing [][2]string `json:"trailing,omitempty"`
	Replies  [][]byte    `json:"replies,omitempty"`
	Seconds  float64     `json:"seconds"`
}

// play reads all orders, plays so many at once, and writes what came of them.
func play(atOnce int) {
	var orders []channelOrder
	check(json.NewDecoder(os.Stdin).Decode(&orders))
	outcomes := make([][]callOutcome, len(orders))
	places := make(chan struct{}, atOnce)
	var players sync.WaitGroup
	for number, order := range orders {
		players.Go(func() {
			places <- struct{}{}
			outcomes[number] = order.play()
			<-places
		})
	}
	players.Wait()
	check(json.NewEncoder(os.Stdout).Encode(outcomes))
}

func (o channelOrder) play() []callOutcome {
	target := o.Target
	if address, isAddress := strings.CutPrefix(target, "ipv4:"); isAddress {
		target = "passthrough:///" + address // grpc-go does not have the other scheme
	}
	defaults := []grpc.CallOption{grpc.ForceCodecV2(rawBytes{})}
	if most := o.Ours.MaxReceiveSize; most != nil {
		defaults = append(defaults, grpc.MaxCallRecvMsgSize(*most))
	}
	if most := o.Ours.MaxSendSize; most != nil {
		defaults = append(defaults, grpc.MaxCallSendMsgSize(*most))
	}
	delay := 100 * time.Millisecond // a connection that a script ends is followed by another one soon
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(hostCredentials()),
		grpc.WithDefaultCallOptions(defaults...),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: delay, Multiplier: 1, MaxDelay: delay}, MinConnectTimeout: 20 * time.Second,
		}),
	}
	if string(o.ServiceConfig) != "null" {
		options = append(options, grpc.WithDefaultServiceConfig(string(o.ServiceConfig)))
	}
	channel, err := grpc.NewClient(target, options...)
	check(err)
	defer channel.Close()
	var outcomes []callOutcome
	var began time.Time
	for number, call := range o.Calls {
		time.Sleep(time.Until(began.Add(call.At.duration())))
		outcomes = append(outcomes, call.makeAll(channel))
		if number == 0 {
			began = time.Now()
		}
	}
	time.Sleep(o.Linger.duration())
	return outcomes
}

func (o callOrder) makeAll(channel *grpc.ClientConn) callOutcome {
	if o.AtOnce < 2 {
		return o.make(channel)
	}
	found := make([]callOutcome, o.AtOnce)
	var callers sync.WaitGroup
	for number := range found {
		callers.Go(func() { found[number] = o.make(channel) })
	}
	callers.Wait()
	var all []string
	messages := map[string]bool{}
	for _, each := range found {
		all = append(all, each.Code)
		messages[each.Message] = true
	}
	slices.Sort(all)
	return callOutcome{
		Code: strings.Join(all, ", "), Message: strings.Join(slices.Sorted(maps.Keys(messages)), ", "),
	}
}

func (o callOrder) make(channel *grpc.ClientConn) callOutcome {
	began := time.Now()
	ctx, cancel := context.WithCancel(with(o.pairs()))
	if o.Timeout != nil {
		ctx, cancel = context.WithTimeout(ctx, o.Timeout.duration())
	}
	defer cancel()
	var initial, trailing metadata.MD
	options := []grpc.CallOption{grpc.WaitForReady(o.WaitForReady), grpc.Header(&initial), grpc.Trailer(&trailing)}
	if o.Compression == 2 {
		options = append(options, grpc.UseCompressor("gzip"))
	}
	replies, err := o.call(ctx, channel, options)
	found := status.Convert(err)
	return callOutcome{
		nameOf(found.Code()), found.Message(), texts(initial), texts(trailing), replies, time.Since(began).Seconds(),
	}
}

func (o callOrder) call(ctx context.Context, channel *grpc.ClientConn, options []grpc.CallOption) ([][]byte, error) {
	sends, receives := o.Kind == "client_stream" || o.Kind == "bidi", o.Kind == "server_stream" || o.Kind == "bidi"
	replies := [][]byte{}
	if !sends && !receives {
		var reply []byte
		err := channel.Invoke(ctx, o.Path, o.Messages[0], &reply, options...)
		if err == nil {
			replies = append(replies, reply)
		}
		return replies, err
	}
	call, err := channel.NewStream(ctx, &grpc.StreamDesc{ClientStreams: sends, ServerStreams: receives}, o.Path, options...)
	if err != nil {
		return replies, err
	}
	for _, message := range o.Messages {
		// EOF says that RecvMsg has the status; replies may have come before it.
		if err := call.SendMsg(message); err != nil && err != io.EOF {
			return replies, err
		}
	}
	if err := call.CloseSend(); err != nil {
		return replies, err
	}
	for {
		var reply []byte
		switch err := call.RecvMsg(&reply); {
		case err == io.EOF:
			return replies, nil
		case err != nil:
			return replies, err
		}
		replies = append(replies, reply)
		if !receives {
			return replies, nil
		}
	}
}

// pairs are the metadata with the bytes of its binary values.
func (o callOrder) pairs() [][2]string {
	pairs := slices.Clone(o.Metadata)
	for number, pair := range pairs {
		if strings.HasSuffix(strings.ToLower(pair[0]), "-bin") {
			value, err := base64.StdEncoding.DecodeString(pair[1])
			check(err)
			pairs[number][1] = string(value)
		}
	}
	return pairs
}

// texts are all pairs but the content-type, which only grpc-go shows, sorted by key, and binary ones as base64.
func texts(pairs metadata.MD) [][2]string {
	found := [][2]string{}
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		for _, value := range pairs[key] {
			if strings.HasSuffix(key, "-bin") {
				value = base64.StdEncoding.EncodeToString([]byte(value))
			}
			if key != "content-type" {
				found = append(found, [2]string{key, value})
			}
		}
	}
	return found
}

// hostCredentials are those of the cluster, with XDS_CREDENTIALS in the environment, or none.
func hostCredentials() credentials.TransportCredentials {
	if _, isSet := os.LookupEnv("XDS_CREDENTIALS"); !isSet {
		return insecure.NewCredentials()
	}
	made, err := xdscreds.NewClientCredentials(xdscreds.ClientOptions{FallbackCreds: insecure.NewCredentials()})
	if err != nil {
		panic(err)
	}
	return made
}
