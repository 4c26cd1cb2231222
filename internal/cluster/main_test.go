package cluster

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// parentRole has this test binary start a cluster in a folder and wait to be killed.
const parentRole = "test-parent-role"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == parentRole {
		os.Exit(parent(os.Args[2]))
	}
	goleak.VerifyTestMain(m)
}

func parent(dir string) int {
	components := Components{}
	binaries, err := FindBinaries(components.Programs(), repositoryBin)
	if err == nil {
		var c *Cluster
		if c, err = Start(context.Background(), Config{Dir: dir, Binaries: binaries, Components: components}); err == nil {
			fmt.Println(c.RESTConfig().Host)
			<-c.Done()
			err = c.Err()
		}
	}
	fmt.Println(err)
	return 1
}
