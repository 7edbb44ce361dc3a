// Istio is istiod, Istio's control plane, for one machine: no Kubernetes, its configuration in files. With -agent it is
// also the agent that Istio puts beside a gRPC program.
//
//	istio -config FOLDER [-agent FOLDER] [-listen ADDRESS]
//
// The first folder has Istio's resources in YAML; a change is noticed. The agent writes grpc-bootstrap.json into the second
// and listens there on the socket XDS. It writes one line to stdout, {"listening": ADDRESS}, and ends when stdin does. Its
// features are Istio's environment variables.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"unsafe"

	meshconfig "istio.io/api/mesh/v1alpha1"
	"istio.io/istio/pilot/pkg/bootstrap"
	"istio.io/istio/pilot/pkg/model"
	"istio.io/istio/pkg/bootstrap/platform"
	"istio.io/istio/pkg/cluster"
	"istio.io/istio/pkg/config/mesh"
	"istio.io/istio/pkg/envoy"
	istioagent "istio.io/istio/pkg/istio-agent"
	kubelib "istio.io/istio/pkg/kube"
	"istio.io/istio/pkg/kube/multicluster"
	istiolog "istio.io/istio/pkg/log"
	"istio.io/istio/pkg/security"
)

const clusterID = "Kubernetes" // what Istio calls its only cluster

func main() {
	config := flag.String("config", "", "the folder of Istio's resources")
	agent := flag.String("agent", "", "the folder of the agent's bootstrap and socket; without it there is no agent")
	address := flag.String("listen", "", "where clients reach the control plane; without it on a free port of loopback")
	flag.Parse()
	if *address == "" {
		*address = freeAddress()
	}

	logging := istiolog.DefaultOptions()
	logging.OutputPaths = []string{"stderr"} // stdout is ours
	must(istiolog.Configure(logging))

	stop := make(chan struct{})
	startPilot(*config, *address, stop)
	if *agent != "" {
		startAgent(*agent, *address)
	}
	must(json.NewEncoder(os.Stdout).Encode(map[string]any{"listening": *address}))
	_, _ = io.Copy(io.Discard, os.Stdin) // whoever started it has no more use for it
}

func startPilot(config, address string, stop <-chan struct{}) {
	args := bootstrap.NewPilotArgs(func(args *bootstrap.PilotArgs) {
		args.ServerOptions.GRPCAddr = address
		args.ServerOptions.HTTPAddr = "127.0.0.1:0"
		args.RegistryOptions.FileDir = config
		args.RegistryOptions.KubeOptions.DomainSuffix = "cluster.local"
		args.RegistryOptions.KubeOptions.ClusterID = clusterID
	})
	server, err := bootstrap.NewServer(args, func(server *bootstrap.Server) { addCluster(server, stop) })
	must(err)
	must(server.Start(stop))
}

// addCluster gives the server a cluster without anything in it. Without Kubernetes it has none, and its registry of
// ServiceEntries would follow a nil pointer to the cluster's namespaces.
func addCluster(server *bootstrap.Server, stop <-chan struct{}) {
	client := kubelib.NewFakeClient()
	clusters := multicluster.NewController(multicluster.ControllerOptions{
		Client: client, ClusterID: cluster.ID(clusterID), SystemNamespace: "istio-system",
	})
	client.RunAndWait(stop)
	must(clusters.Run(stop))
	field := reflect.ValueOf(server).Elem().FieldByName("multiclusterController")
	reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Set(reflect.ValueOf(clusters))
}

// startAgent starts the agent of a pod: no Envoy, no certificates, plain text to the pilot.
func startAgent(folder, pilot string) {
	must(os.Setenv("POD_NAMESPACE", "shop")) // the pilot has read its own by now
	node := istioagent.Proxy{
		ID: "web.shop", DNSDomain: "shop.svc.cluster.local", Type: model.SidecarProxy, IPAddresses: []string{"127.0.0.1"},
	}
	config := mesh.DefaultProxyConfig()
	config.ConfigPath = folder
	config.DiscoveryAddress = pilot
	config.ControlPlaneAuthPolicy = meshconfig.AuthenticationPolicy_NONE
	options := &istioagent.AgentOptions{
		XdsUdsPath:                 filepath.Join(folder, "XDS"),
		GRPCBootstrapPath:          filepath.Join(folder, "grpc-bootstrap.json"),
		DisableEnvoy:               true,
		ProxyType:                  model.SidecarProxy,
		ProxyIPAddresses:           node.IPAddresses,
		ServiceNode:                node.ServiceNode(),
		Platform:                   &platform.Unknown{},
		WorkloadIdentitySocketFile: security.DefaultWorkloadIdentitySocketFile,
	}
	secrets := &security.Options{ServeOnlyFiles: true, ClusterID: clusterID, OutputKeyCertToDir: folder}
	_, err := istioagent.NewAgent(config, options, secrets, envoy.ProxyConfig{}).Run(context.Background())
	must(err)
}

func freeAddress() string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	defer listener.Close()
	return listener.Addr().String()
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
