// The path lies below grpc-go's: how long its xDS client waits for a resource is an option of an internal package only.
module google.golang.org/grpc/client

go 1.26.0

require (
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1
	google.golang.org/grpc v1.85.0
)
