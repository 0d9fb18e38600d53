package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"remshell/sshx"
)

// A recorder is a transport that records its calls. It returns the results of a set in reverse order, as a
// batch system may.
type recorder struct {
	name string
	sets [][]string
}

func (s *recorder) Dial(_ context.Context, hosts []Host) <-chan Result {
	results := make(chan Result, len(hosts))
	var names []string
	for i, host := range slices.Backward(hosts) {
		names = append(names, host.Name)
		results <- Result{Index: i, Err: fmt.Errorf("%s %s", s.name, host.Name)}
	}
	close(results)
	s.sets = append(s.sets, names)
	return results
}

func (s *recorder) Route(host Host) (string, error) { return s.name + " to " + host.Name, nil }

// Each transport is called once, with all its hosts of a set, and each result belongs to the right host.
func TestASetIsSplitByTransport(t *testing.T) {
	here, there := &recorder{name: "here"}, &recorder{name: "there"}
	ways := Transports{Local: here, Remote: there}
	hosts := []Host{{Name: "a"}, {Name: "b", Local: true}, {Name: "c"}, {Name: "d", Local: true}, {Name: "e"}}
	said := make([]string, len(hosts))
	for r := range ways.Dial(t.Context(), hosts) {
		said[r.Index] += r.Err.Error()
	}
	if want := []string{"there a", "here b", "there c", "here d", "there e"}; !slices.Equal(said, want) {
		t.Errorf("got %q, want %q", said, want)
	}
	if got := fmt.Sprint(here.sets, there.sets); got != "[[d b]] [[e c a]]" {
		t.Errorf("called with %s", got)
	}
	for _, host := range hosts[:2] {
		if route, err := ways.Route(host); err != nil || route != map[bool]string{true: "here to b", false: "there to a"}[host.Local] {
			t.Errorf("route %q, %v", route, err)
		}
	}
	if r, more := <-ways.Dial(t.Context(), nil); more || len(here.sets)+len(there.sets) != 2 {
		t.Errorf("of no host %+v; called with %v, %v", r, here.sets, there.sets)
	}
}

// A panic while connecting to one host is that host's error, and the stack is kept (TRUST-35).
func TestAPanicIsOneHosts(t *testing.T) {
	errs := make([]error, 2)
	for r := range DialEach(t.Context(), []Host{{Name: "a"}, {Name: "b"}}, func(_ context.Context, host Host) (io.ReadWriteCloser, error) {
		if host.Name == "a" {
			panic("oh")
		}
		return nil, errors.New("down")
	}) {
		errs[r.Index] = r.Err
	}
	var crash *PanicError
	if !errors.As(errs[0], &crash) || crash.Error() != "internal error: oh" || !strings.Contains(string(crash.Stack), "TestAPanicIsOneHosts") {
		t.Errorf("a: %v", errs[0])
	}
	if errs[1].Error() != "down" {
		t.Errorf("b: %v", errs[1])
	}
}

// The settings of the host list override the user's configuration, which is looked up by the name that the
// user wrote (SSH-1).
func TestHostOverConfiguration(t *testing.T) {
	client := &SSH{Resolve: func(_ context.Context, alias string) (sshx.Target, error) {
		if alias == "wrong" {
			return sshx.Target{}, errors.New("config:3: Port: none")
		}
		return sshx.Target{Alias: alias, HostName: alias + ".example", Port: 22, User: "me"}, nil
	}}
	for _, c := range []struct {
		host  Host
		route string
	}{
		{Host{Name: "n1"}, "ssh to n1.example as me"},
		{Host{Name: "n1.example", Alias: "n1"}, "ssh as me"},
		{Host{Name: "n1", Alias: "login"}, "ssh to login.example as me"},
		{Host{Name: "n1", Address: "10.0.0.1", User: "you", Port: 2222}, "ssh to 10.0.0.1 port 2222 as you"},
	} {
		if route, err := client.Route(c.host); err != nil || route != c.route {
			t.Errorf("%+v: %q, %v; want %q", c.host, route, err, c.route)
		}
	}
	if _, err := dial(t, client, "wrong"); err == nil || err.Error() != "config:3: Port: none" {
		t.Errorf("error %v, want that of the configuration", err)
	}
}

// A held is a stream that counts how often it is closed.
type held struct {
	io.ReadWriter
	closed *atomic.Int32
}

func (h held) Close() error { h.closed.Add(1); return nil }

// If the first transport does not reach all hosts, the second one connects to all, and the first one's
// streams are closed. A later failure, or a host that is not part of the job, is an error of that host.
func TestFallback(t *testing.T) {
	var closed atomic.Int32
	failing := map[string]error{}
	tried := func(name string) Transport {
		return singleTransport(func(host Host) (io.ReadWriteCloser, error) {
			if err := failing[name+" "+host.Name]; err != nil {
				return nil, err
			}
			return held{&bytes.Buffer{}, &closed}, nil
		})
	}
	reach := func(f *Fallback, names ...string) string {
		said := make([]string, len(names))
		var hosts []Host
		for _, name := range names {
			hosts = append(hosts, Host{Name: name})
		}
		for r := range f.Dial(t.Context(), hosts) {
			if said[r.Index] += "reached"; r.Err != nil {
				said[r.Index] = r.Err.Error()
			}
		}
		return strings.Join(said, ", ")
	}
	told := ""
	fresh := func() *Fallback {
		told = ""
		closed.Store(0)
		return &Fallback{First: tried("first"), Second: tried("second"), Failed: func(host Host, err error) { told += host.Name + ": " + err.Error() }}
	}

	f := fresh()
	if got := reach(f, "a", "b"); got != "reached, reached" || told != "" || closed.Load() != 0 {
		t.Errorf("%s; told %q, %d closed", got, told, closed.Load())
	}
	failing["first c"] = errors.New("drained")
	if got := reach(f, "c"); got != "drained" || told != "" {
		t.Errorf("once hosts were reached: %s; told %q", got, told)
	}
	f = fresh()
	if got := reach(f, "a", "c", "b"); got != "reached, reached, reached" || told != "c: drained" || closed.Load() != 2 {
		t.Errorf("%s; told %q, %d closed", got, told, closed.Load())
	}
	failing["second a"] = errors.New("down")
	if got := reach(f, "a", "b"); got != "down, reached" || told != "c: drained" {
		t.Errorf("later: %s; told %q", got, told)
	}
	f = fresh()
	failing["first c"] = NotInJob("c", "slurm", "12")
	if got := reach(f, "b", "c"); got != "reached, c: config: the host is not part of Slurm job 12" || told != "" {
		t.Errorf("no host of the job: %s; told %q", got, told)
	}
}

// A singleTransport connects to each host by itself.
type singleTransport func(Host) (io.ReadWriteCloser, error)

func (w singleTransport) Dial(ctx context.Context, hosts []Host) <-chan Result {
	return DialEach(ctx, hosts, func(_ context.Context, host Host) (io.ReadWriteCloser, error) { return w(host) })
}

func (w singleTransport) Route(Host) (string, error) { return "", nil }
