package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"remshell/job"
	"remshell/transport"
	"remshell/wire"
)

// A switchboard dials hosts as their names say, and keeps the sets.
type switchboard struct{ sets [][]transport.Host }

func (s *switchboard) Dial(ctx context.Context, hosts []transport.Host) <-chan transport.Result {
	s.sets = append(s.sets, hosts)
	return transport.DialEach(ctx, hosts, func(_ context.Context, host transport.Host) (io.ReadWriteCloser, error) {
		switch host.Name {
		case "down":
			return nil, errors.New("connection refused")
		case "crash":
			panic("a fault of ours")
		}
		here, there := net.Pipe()
		go func() {
			c := wire.NewConn(there, wire.Helper)
			defer c.Abandon()
			if host.Name != "mute" {
				c.SendHello(&wire.Hello{Version: wire.Version})
				c.Send(&wire.NodeInfo{Probe: job.Probe{Hostname: host.Name}})
			}
			c.Recv()
		}()
		return here, nil
	})
}

// A set is dialled with one call, with all that is known of each host, and each host has its
// own result: what one of them does is not the others' (TRUST-35, TRUST-36).
func TestConnectASet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var board switchboard
		c := &Connector{Dialer: &board, GreetTimeout: time.Second, Log: zerolog.New(zerolog.SyncWriter(&log))}
		defs := []job.NodeDef{{Name: "down"}, {Name: "mute"}, {Name: "crash"},
			{Name: "well", ID: 7, Host: "alias", Address: "10.0.0.1", User: "u", Port: 2222, HelperPath: "/opt/mpiexec", Local: true}}
		said := make([]string, len(defs))
		for r := range c.Connect(t.Context(), defs) {
			if said[r.Index] = fmt.Sprint(r.Err); r.Err == nil {
				said[r.Index] = r.Node.Probe.Hostname
				r.Node.Abandon()
			}
		}
		want := []string{"connection refused", "connected, and then silent for 1 s", "internal error: a fault of ours", "well"}
		if !slices.Equal(said, want) {
			t.Errorf("got %q, want %q", said, want)
		}
		if !strings.Contains(log.String(), "goroutine") || !strings.Contains(log.String(), `"node":"crash"`) {
			t.Errorf("no stack of the crash in the log: %s", log.String())
		}
		host := transport.Host{Name: "well", Alias: "alias", Address: "10.0.0.1", User: "u", Port: 2222, Helper: "/opt/mpiexec", Index: 7, Local: true}
		if len(board.sets) != 1 || board.sets[0][3] != host {
			t.Errorf("dialled %+v, want one set with %+v", board.sets, host)
		}
	})
}
