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

// A fakeDialer connects to hosts as their names say, and records the sets that it was given.
type fakeDialer struct{ sets [][]transport.Host }

func (s *fakeDialer) Dial(ctx context.Context, hosts []transport.Host) <-chan transport.Result {
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

// A set is dialled with one call, with all that is known of each host. Each host has its own result: a
// failure of one does not affect the others (TRUST-35, TRUST-36).
func TestConnectASet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var dialer fakeDialer
		c := &Connector{Dialer: &dialer, GreetTimeout: time.Second, Log: zerolog.New(zerolog.SyncWriter(&log))}
		defs := []job.NodeDef{{Name: "down"}, {Name: "mute"}, {Name: "crash"},
			{Name: "well", ID: 7, Host: "alias", Address: "10.0.0.1", User: "u", Port: 2222, HelperPath: "/opt/mpiexec", Local: true}}
		got := make([]string, len(defs))
		for r := range c.Connect(t.Context(), defs) {
			if got[r.Index] = fmt.Sprint(r.Err); r.Err == nil {
				got[r.Index] = r.Node.Probe.Hostname
				r.Node.Abandon()
			}
		}
		want := []string{"connection refused", "mpiexec on the host was started, but did not answer within 1 s", "internal error: a fault of ours", "well"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if !strings.Contains(log.String(), "goroutine") || !strings.Contains(log.String(), `"node":"crash"`) {
			t.Errorf("no stack of the crash in the log: %s", log.String())
		}
		host := transport.Host{Name: "well", Alias: "alias", Address: "10.0.0.1", User: "u", Port: 2222, Helper: "/opt/mpiexec", Index: 7, Local: true}
		if len(dialer.sets) != 1 || dialer.sets[0][3] != host {
			t.Errorf("dialled %+v, want one set with %+v", dialer.sets, host)
		}
	})
}
