package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/purser-csi/purser/internal/cluster/process"
)

const loopback = "127.0.0.1"

// ports are the ports of etcd and the API server.
type ports struct {
	Etcd      int `json:"etcd"`
	APIServer int `json:"kubeAPIServer"`
}

// choosePorts returns the ports of the previous run if they are free, so that a kubeconfig stays
// valid, and otherwise other ones.
//
// A port that was free a moment ago can be taken before the component listens on it; Start then
// tries again.
func choosePorts(path string) (ports, error) {
	previous := readPorts(path)
	etcd, err1 := listen(previous.Etcd)
	api, err2 := listen(previous.APIServer)
	// Both are held until both are known, or they could be the same.
	chosen := ports{Etcd: closePort(etcd), APIServer: closePort(api)}
	if err := errors.Join(err1, err2); err != nil {
		return ports{}, fmt.Errorf("choosing free ports on %s: %w", loopback, err)
	}
	return chosen, chosen.save(path)
}

// readPorts returns the ports of the previous run; none if the file cannot be read.
func readPorts(path string) ports {
	var p ports
	data, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(data, &p) != nil {
		return ports{}
	}
	return p
}

func (p ports) save(path string) error {
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return process.WritePrivateFile(path, data)
}

// listen listens on the wanted port, or on any free one if the wanted one cannot be used.
func listen(wanted int) (net.Listener, error) {
	if l, err := net.Listen("tcp", address(wanted)); err == nil { //nolint:noctx // on loopback it does not wait
		return l, nil
	}
	return net.Listen("tcp", address(0)) //nolint:noctx // as above
}

func closePort(l net.Listener) int {
	if l == nil {
		return 0
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
