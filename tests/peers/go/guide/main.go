// Guide is a small control plane: one service, sticky by a cookie. docs/how-to/go-control-plane.md has this text.
//
//	guide [-listen ADDRESS] HOST:PORT...
//
// Each line on stdin is a host that drains from then on.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	clusterpb "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointpb "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerpb "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routepb "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerpb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	sessionpb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/stateful_session/v3"
	managerpb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	cookiepb "github.com/envoyproxy/go-control-plane/envoy/extensions/http/stateful_session/cookie/v3"
	discoverypb "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	httppb "github.com/envoyproxy/go-control-plane/envoy/type/http/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
)

// Clients are told apart by their node's cluster, so all programs named "web" share a snapshot.
type byCluster struct{}

func (byCluster) ID(node *corepb.Node) string { return node.GetCluster() }

func main() {
	address := flag.String("listen", "127.0.0.1:18000", "where clients reach it")
	flag.Parse()
	hosts, draining := flag.Args(), map[string]bool{}

	// false: no ADS mode, which is for clients that ask for all of a snapshot. A gRPC client asks for its part.
	snapshots := cache.NewSnapshotCache(false, byCluster{}, nil)
	grpcServer := grpc.NewServer()
	discoverypb.RegisterAggregatedDiscoveryServiceServer(
		grpcServer, server.NewServer(context.Background(), snapshots, nil))
	listener, err := net.Listen("tcp", *address)
	must(err)
	go func() { must(grpcServer.Serve(listener)) }()
	fmt.Println("serving xDS on", listener.Addr())

	lines := bufio.NewScanner(os.Stdin)
	for version := 1; ; version++ {
		// A new version for each change: without one the cache sends nothing.
		snapshot, err := cache.NewSnapshot(strconv.Itoa(version), map[resource.Type][]types.Resource{
			resource.ListenerType: {listenerOf("shop", "shop-routes")},
			resource.RouteType:    {routesOf("shop-routes", "cart")},
			resource.ClusterType:  {clusterOf("cart")},
			resource.EndpointType: {endpointsOf("cart", hosts, draining)},
		})
		must(err)
		must(snapshots.SetSnapshot(context.Background(), "web", snapshot))
		if !lines.Scan() {
			select {} // stdin is closed: serve the last snapshot
		}
		draining[lines.Text()] = true
	}
}

// The name of the Listener is what follows xds:/// in the target.
func listenerOf(name, routes string) *listenerpb.Listener {
	manager := &managerpb.HttpConnectionManager{
		RouteSpecifier: &managerpb.HttpConnectionManager_Rds{
			Rds: &managerpb.Rds{RouteConfigName: routes, ConfigSource: fromADS()},
		},
		HttpFilters: []*managerpb.HttpFilter{
			filter("sessions", &sessionpb.StatefulSession{
				SessionState: &corepb.TypedExtensionConfig{
					Name: "cookie",
					TypedConfig: packed(&cookiepb.CookieBasedSessionState{
						Cookie: &httppb.Cookie{Name: "session", Path: "/"},
					}),
				},
			}),
			filter("router", &routerpb.Router{}), // always the last
		},
	}
	return &listenerpb.Listener{Name: name, ApiListener: &listenerpb.ApiListener{ApiListener: packed(manager)}}
}

func routesOf(name, cluster string) *routepb.RouteConfiguration {
	all := &routepb.Route{
		Match: &routepb.RouteMatch{PathSpecifier: &routepb.RouteMatch_Prefix{Prefix: ""}},
		Action: &routepb.Route_Route{Route: &routepb.RouteAction{
			ClusterSpecifier: &routepb.RouteAction_Cluster{Cluster: cluster},
		}},
	}
	host := &routepb.VirtualHost{Name: "all", Domains: []string{"*"}, Routes: []*routepb.Route{all}}
	return &routepb.RouteConfiguration{Name: name, VirtualHosts: []*routepb.VirtualHost{host}}
}

func clusterOf(name string) *clusterpb.Cluster {
	return &clusterpb.Cluster{
		Name:                 name,
		ClusterDiscoveryType: &clusterpb.Cluster_Type{Type: clusterpb.Cluster_EDS},
		EdsClusterConfig:     &clusterpb.Cluster_EdsClusterConfig{EdsConfig: fromADS()},
		LbPolicy:             clusterpb.Cluster_ROUND_ROBIN,
		CommonLbConfig: &clusterpb.Cluster_CommonLbConfig{
			// With DRAINING in the list, a draining host keeps its sessions and gets no new ones.
			OverrideHostStatus: &corepb.HealthStatusSet{Statuses: []corepb.HealthStatus{
				corepb.HealthStatus_UNKNOWN, corepb.HealthStatus_HEALTHY, corepb.HealthStatus_DRAINING,
			}},
		},
	}
}

func endpointsOf(cluster string, hosts []string, draining map[string]bool) *endpointpb.ClusterLoadAssignment {
	var endpoints []*endpointpb.LbEndpoint
	for _, host := range hosts {
		health := corepb.HealthStatus_HEALTHY
		if draining[host] {
			health = corepb.HealthStatus_DRAINING
		}
		endpoints = append(endpoints, &endpointpb.LbEndpoint{
			HealthStatus: health,
			HostIdentifier: &endpointpb.LbEndpoint_Endpoint{
				Endpoint: &endpointpb.Endpoint{Address: addressOf(host)},
			},
		})
	}
	return &endpointpb.ClusterLoadAssignment{
		ClusterName: cluster,
		Endpoints: []*endpointpb.LocalityLbEndpoints{{
			Locality:            &corepb.Locality{Zone: "a"},
			LoadBalancingWeight: wrapperspb.UInt32(1), // gRPC clients leave out localities without a weight
			LbEndpoints:         endpoints,
		}},
	}
}

func addressOf(hostPort string) *corepb.Address {
	host, text, err := net.SplitHostPort(hostPort)
	must(err)
	port, err := strconv.ParseUint(text, 10, 16)
	must(err)
	return &corepb.Address{Address: &corepb.Address_SocketAddress{SocketAddress: &corepb.SocketAddress{
		Address:       host,
		PortSpecifier: &corepb.SocketAddress_PortValue{PortValue: uint32(port)},
	}}}
}

func filter(name string, config proto.Message) *managerpb.HttpFilter {
	return &managerpb.HttpFilter{Name: name, ConfigType: &managerpb.HttpFilter_TypedConfig{TypedConfig: packed(config)}}
}

func fromADS() *corepb.ConfigSource {
	return &corepb.ConfigSource{ConfigSourceSpecifier: &corepb.ConfigSource_Ads{Ads: &corepb.AggregatedConfigSource{}}}
}

func packed(message proto.Message) *anypb.Any {
	result, err := anypb.New(message)
	must(err)
	return result
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
