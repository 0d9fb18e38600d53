package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"sync"
)

// A Transport connects to hosts. To add a transport, write a type with these two methods, and select it in
// cli/dialer.go.
type Transport interface {
	// Dial starts the helpers of a set of hosts. It sends one Result for each as soon as it is known, in any
	// order, and then closes the channel. It never waits for the receiver, which must close the streams.
	// When ctx ends, the hosts that were not reached fail; the others are not affected.
	Dial(ctx context.Context, hosts []Host) <-chan Result

	// Route describes for the user how a host would be reached, in a few words. It does not connect.
	Route(host Host) (string, error)
}

// A Result is the result of connecting to one host.
type Result struct {
	Index  int                // of the host in the set, from 0
	Stream io.ReadWriteCloser // stdin and stdout of its helper; nil if Err is set
	Err    error
}

// DialEach calls dial for all hosts of a set at the same time. It implements Transport.Dial for transports
// that connect to one host at a time. dial must limit how many connections are made at the same time
// (sshx.Pacer).
func DialEach(ctx context.Context, hosts []Host, dial func(context.Context, Host) (io.ReadWriteCloser, error)) <-chan Result {
	results := make(chan Result, len(hosts))
	var dialing sync.WaitGroup
	for i, host := range hosts {
		dialing.Go(func() {
			stream, err := dialRecovered(ctx, host, dial)
			results <- Result{i, stream, err}
		})
	}
	go func() {
		dialing.Wait()
		close(results)
	}()
	return results
}

// A PanicError is the error for a host if the code that connects to the host has panicked. A panic is a bug of mpiexec,
// but only that host fails (rule TRUST-35).
type PanicError struct {
	Value any    // argument of panic
	Stack []byte // for the log
}

// NewPanicError returns the error for a value that recover has returned. It must be called directly by the deferred
// function, so that it records the stack of the panic.
func NewPanicError(value any) *PanicError { return &PanicError{value, debug.Stack()} }

func (c *PanicError) Error() string { return fmt.Sprintf("internal error: %v", c.Value) }

// dialRecovered calls dial. If dial panics, it returns the panic as an error.
func dialRecovered(ctx context.Context, host Host, dial func(context.Context, Host) (io.ReadWriteCloser, error)) (stream io.ReadWriteCloser, err error) {
	defer func() {
		if why := recover(); why != nil {
			err = NewPanicError(why)
		}
	}()
	return dial(ctx, host)
}

// Transports holds the two transports of one command line: one to this machine and one to other hosts.
type Transports struct {
	Local  Transport // to this machine
	Remote Transport // to all others
}

var _ Transport = Transports{}

// Dial divides the hosts by transport and calls Dial of each transport once.
func (w Transports) Dial(ctx context.Context, hosts []Host) <-chan Result {
	results := make(chan Result, len(hosts))
	var dialing sync.WaitGroup
	for _, p := range w.splitByTransport(hosts) {
		dialing.Go(func() {
			for r := range p.transport.Dial(ctx, p.hosts) {
				r.Index = p.at[r.Index]
				results <- r
			}
		})
	}
	go func() {
		dialing.Wait()
		close(results)
	}()
	return results
}

// A transportHosts lists the hosts that use one transport.
type transportHosts struct {
	transport Transport
	hosts     []Host
	at        []int // index of each host in the set
}

// splitByTransport divides a set of hosts by transport. A transport that no host uses has no entry in the
// result.
func (w Transports) splitByTransport(hosts []Host) (subsets []transportHosts) {
	local, remote := transportHosts{transport: w.Local}, transportHosts{transport: w.Remote}
	for i, host := range hosts {
		p := &remote
		if host.Local {
			p = &local
		}
		p.hosts, p.at = append(p.hosts, host), append(p.at, i)
	}
	for _, p := range []transportHosts{local, remote} {
		if len(p.hosts) > 0 {
			subsets = append(subsets, p)
		}
	}
	return subsets
}

// Route returns the Route of the transport that the host uses.
func (w Transports) Route(host Host) (string, error) {
	if host.Local {
		return w.Local.Route(host)
	}
	return w.Remote.Route(host)
}

// A Fallback connects to all hosts of a job with the transport First, or to all hosts with the transport Second
// (rm-integration.md RM-30). It uses Second if First fails for a host in the first set of hosts. The decision is
// final. If First fails for a host later, when ranks may run, that is an error of the host.
//
//	the first set --First--> all are reached ------------------------> First from now on
//	                    '--> one is not: connections are closed ----> Second from now on
//
// The Results of the first set are sent only when all of them are known. The fields must not change after the first
// call of Dial.
type Fallback struct {
	First, Second Transport
	Failed        func(host Host, err error) // called once, before Second is used; may be nil

	deciding sync.Mutex
	decided  Transport // nil until decided
}

var _ Transport = (*Fallback)(nil)

// Dial connects to hosts with First or Second. The first call of Dial decides which transport is used.
func (f *Fallback) Dial(ctx context.Context, hosts []Host) <-chan Result {
	results := make(chan Result, len(hosts))
	go func() {
		defer close(results)
		transport, reached := f.decide(ctx, hosts)
		if reached == nil {
			for r := range transport.Dial(ctx, hosts) {
				results <- r
			}
			return
		}
		for _, r := range reached {
			results <- r
		}
	}()
	return results
}

// decide returns the transport to use. If this call has connected to the hosts with First, and First is used, reached
// contains the Results. Only the first call decides; later calls wait for its decision.
func (f *Fallback) decide(ctx context.Context, hosts []Host) (transport Transport, reached []Result) {
	f.deciding.Lock()
	defer f.deciding.Unlock()
	if f.decided != nil {
		return f.decided, nil
	}
	for r := range f.First.Dial(ctx, hosts) {
		reached = append(reached, r)
	}
	failed := slices.IndexFunc(reached, func(r Result) bool { return warrantsFallback(r.Err) })
	if failed < 0 || ctx.Err() != nil {
		f.decided = f.First
		return f.decided, reached
	}
	closeStreams(reached)
	if f.Failed != nil {
		f.Failed(hosts[reached[failed].Index], reached[failed].Err)
	}
	f.decided = f.Second
	return f.decided, nil
}

// warrantsFallback reports whether err is a reason to use the other transport. It returns false if the host
// does not belong to the job, or if connecting was cancelled. These are not failures of the transport.
func warrantsFallback(err error) bool {
	var e *Error
	return err != nil && (!errors.As(err, &e) || e.Kind != KindConfig && e.Kind != KindCanceled)
}

// closeStreams closes the streams of several Results in parallel, because closing a stream may take some time.
func closeStreams(set []Result) {
	var closing sync.WaitGroup
	for _, r := range set {
		if r.Stream != nil {
			closing.Go(func() { r.Stream.Close() })
		}
	}
	closing.Wait()
}

// Route returns the route to a host by the transport that is in use or, before that is decided, by First.
func (f *Fallback) Route(host Host) (string, error) {
	f.deciding.Lock()
	defer f.deciding.Unlock()
	if f.decided != nil {
		return f.decided.Route(host)
	}
	return f.First.Route(host)
}

// A LocalOverride treats a host as this machine if IsLocal returns true for the host, and treats all other hosts as
// other machines.
type LocalOverride struct {
	Transports
	IsLocal func(Host) bool
}

// Dial marks each host for which IsLocal returns true as this machine. Then it calls Transports.Dial with all hosts.
func (h LocalOverride) Dial(ctx context.Context, hosts []Host) <-chan Result {
	hosts = slices.Clone(hosts)
	for i := range hosts {
		hosts[i].Local = h.IsLocal(hosts[i])
	}
	return h.Transports.Dial(ctx, hosts)
}

// Unreachable is the transport to other hosts if the command line gives no way to connect to other hosts.
type Unreachable struct {
	Why       string // text of the error of each host
	RouteText string // text that Route returns
}

var _ Transport = Unreachable{}

// Dial returns an error Result for each host.
func (n Unreachable) Dial(ctx context.Context, hosts []Host) <-chan Result {
	return DialEach(ctx, hosts, func(context.Context, Host) (io.ReadWriteCloser, error) { return nil, errors.New(n.Why) })
}

// Route returns n.RouteText, for any host.
func (n Unreachable) Route(Host) (string, error) { return n.RouteText, nil }
