// Plane is a control plane made of go-control-plane: its snapshot cache, and its server for both ADS protocols.
//
//	plane [-ads=false] [-ordered] [-listen ADDRESS]
//
// Each line on stdin is one snapshot: a JSON array of resources, each a google.protobuf.Any in proto-JSON form. What happens is
// written to stdout, a JSON object in a line: {"listening": ADDRESS}, {"snapshot": VERSION}, {"request": {...}}.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"strconv"
	"sync"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/stateful_session/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/http/stateful_session/cookie/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	discoverypb "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/config"
	"github.com/envoyproxy/go-control-plane/pkg/server/sotw/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
)

// Every client is given the same snapshot, whatever its node says.
const everyNode = "every node"

type sameForAll struct{}

func (sameForAll) ID(*corepb.Node) string { return everyNode }

func main() {
	ads := flag.Bool("ads", true, "the cache's ADS mode: hold an answer until all of the snapshot's names are asked for")
	ordered := flag.Bool("ordered", false, "answer the types of a stream in the order of their dependencies")
	address := flag.String("listen", "127.0.0.1:0", "where clients reach it")
	flag.Parse()

	var options []config.XDSOption
	if *ordered {
		options = append(options, sotw.WithOrderedADS())
	}
	snapshots := cache.NewSnapshotCache(*ads, sameForAll{}, nil)
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	grpcServer := grpc.NewServer()
	xds := server.NewServer(context.Background(), snapshots, tellOfRequests(), options...)
	discoverypb.RegisterAggregatedDiscoveryServiceServer(grpcServer, xds)
	go func() { log.Fatal(grpcServer.Serve(listener)) }()
	tell(map[string]any{"listening": listener.Addr().String()})

	lines := bufio.NewReader(os.Stdin)
	for version := 1; ; version++ {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return // whoever started the plane has no more use for it
		}
		snapshot, err := parse(line, strconv.Itoa(version))
		if err != nil {
			log.Fatal(err)
		}
		if err := snapshots.SetSnapshot(context.Background(), everyNode, snapshot); err != nil {
			log.Fatal(err)
		}
		tell(map[string]any{"snapshot": version})
	}
}

func parse(line []byte, version string) (*cache.Snapshot, error) {
	var texts []json.RawMessage
	if err := json.Unmarshal(line, &texts); err != nil {
		return nil, err
	}
	// A type without resources is in the snapshot too, or the plane would keep silent about it instead of saying that there are none.
	resources := map[resource.Type][]types.Resource{
		resource.ListenerType: nil, resource.RouteType: nil, resource.ClusterType: nil, resource.EndpointType: nil,
	}
	for _, text := range texts {
		packed := &anypb.Any{}
		if err := protojson.Unmarshal(text, packed); err != nil {
			return nil, fmt.Errorf("%w in %s", err, text)
		}
		message, err := packed.UnmarshalNew()
		if err != nil {
			return nil, err
		}
		resources[packed.TypeUrl] = append(resources[packed.TypeUrl], message)
	}
	return cache.NewSnapshot(version, resources)
}

// tellOfRequests has each request written to stdout; a NACK is one that has an error.
func tellOfRequests() server.Callbacks {
	say := func(protocol, typeURL, nonce string, detail *status.Status) {
		tell(map[string]any{"request": map[string]any{
			"protocol": protocol, "type_url": typeURL, "nonce": nonce, "error": detail.GetMessage(),
		}})
	}
	return server.CallbackFuncs{
		StreamRequestFunc: func(_ int64, request *discoverypb.DiscoveryRequest) error {
			say("sotw", request.TypeUrl, request.ResponseNonce, request.ErrorDetail)
			return nil
		},
		StreamDeltaRequestFunc: func(_ int64, request *discoverypb.DeltaDiscoveryRequest) error {
			say("delta", request.TypeUrl, request.ResponseNonce, request.ErrorDetail)
			return nil
		},
	}
}

var telling sync.Mutex

// tell writes one line. It holds a lock, because requests come from several goroutines.
func tell(event map[string]any) {
	telling.Lock()
	defer telling.Unlock()
	if err := json.NewEncoder(os.Stdout).Encode(event); err != nil {
		log.Fatal(err)
	}
}
