// A build of the current etcd, because Debian packages an older one. With the first argument "utl",
// the program is etcd's offline tool.
package main

import (
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/etcdutl/v3/etcdutl"
	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	if len(os.Args) < 2 || os.Args[1] != "utl" {
		etcdmain.Main(os.Args)
		return
	}
	tool := &cobra.Command{Use: "utl", SilenceUsage: true}
	tool.AddCommand(etcdutl.NewSnapshotCommand())
	tool.SetArgs(os.Args[2:])
	if tool.Execute() != nil {
		os.Exit(1)
	}
}
