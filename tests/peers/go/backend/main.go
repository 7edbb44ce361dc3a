// Backend is a server of grpc-go: the interop TestService, whose answers name the backend, and server reflection.
//
//	backend -name blue [-max_age 200ms] [-max_streams 2] [-cert FILE -key FILE]
//
// With a certificate it serves TLS. The header "seen-authority" of each unary call has the :authority of its request.
//
// SIGTERM is GracefulStop, SIGINT is Stop. It writes JSON objects to stdout, a line each: {"listening": ADDRESS} and, at its
// end, {"most_at_once": CALLS, "connections": COUNT}.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/interop"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/stats"
)

// testService names the backend in each reply of UnaryCall, which takes as long as the request's metadata "delay" says. By
// headers that go first its client knows that the call is here.
type testService struct {
	testpb.TestServiceServer
	name string
}

func (s *testService) UnaryCall(ctx context.Context, request *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	seen := metadata.ValueFromIncomingContext(ctx, ":authority")
	if err := grpc.SetHeader(ctx, metadata.Pairs("seen-authority", strings.Join(seen, ","))); err != nil {
		return nil, err
	}
	if values := metadata.ValueFromIncomingContext(ctx, "delay"); len(values) > 0 {
		delay, err := time.ParseDuration(values[0])
		if err != nil {
			return nil, err
		}
		if err := grpc.SendHeader(ctx, nil); err != nil {
			return nil, err
		}
		time.Sleep(delay)
	}
	response, err := s.TestServiceServer.UnaryCall(ctx, request)
	if response != nil {
		response.Hostname = s.name
	}
	return response, err
}

// meter counts calls and connections.
type meter struct {
	mutex                        sync.Mutex
	calls, mostAtOnce, connected int
}

func (m *meter) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (m *meter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (m *meter) HandleRPC(_ context.Context, event stats.RPCStats) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	switch event.(type) {
	case *stats.Begin:
		m.calls++
		m.mostAtOnce = max(m.mostAtOnce, m.calls)
	case *stats.End:
		m.calls--
	}
}

func (m *meter) HandleConn(_ context.Context, event stats.ConnStats) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if _, begins := event.(*stats.ConnBegin); begins {
		m.connected++
	}
}

func main() {
	name := flag.String("name", "backend", "what its replies say")
	maxAge := flag.Duration("max_age", 0, "MaxConnectionAge")
	maxStreams := flag.Uint("max_streams", 0, "MaxConcurrentStreams")
	cert := flag.String("cert", "", "the PEM file of its certificates, for TLS")
	key := flag.String("key", "", "the PEM file of its private key")
	flag.Parse()

	counts := &meter{}
	options := []grpc.ServerOption{grpc.StatsHandler(counts)}
	if *maxAge > 0 {
		options = append(options, grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: *maxAge}))
	}
	if *maxStreams > 0 {
		options = append(options, grpc.MaxConcurrentStreams(uint32(*maxStreams)))
	}
	if *cert != "" {
		secure, err := credentials.NewServerTLSFromFile(*cert, *key)
		if err != nil {
			log.Fatal(err)
		}
		options = append(options, grpc.Creds(secure))
	}
	server := grpc.NewServer(options...)
	testpb.RegisterTestServiceServer(server, &testService{interop.NewTestServer(), *name})
	reflection.Register(server)

	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if <-signals == syscall.SIGTERM {
			server.GracefulStop()
		} else {
			server.Stop()
		}
	}()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	tell(map[string]any{"listening": listener.Addr().String()})
	if err := server.Serve(listener); err != nil {
		log.Fatal(err)
	}
	<-stopped
	counts.mutex.Lock()
	defer counts.mutex.Unlock()
	tell(map[string]any{"most_at_once": counts.mostAtOnce, "connections": counts.connected})
}

func tell(event map[string]any) {
	if err := json.NewEncoder(os.Stdout).Encode(event); err != nil {
		log.Fatal(err)
	}
}
