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

// A Transport reaches hosts. A new one is a type with these two methods, and a case where the command
// line chooses among them (cli/dialer.go).
type Transport interface {
	// Dial starts the helpers of a set of hosts, and sends what came of each as soon as that is
	// known, in any order: one Result for each, and then the channel is closed. It waits for
	// nobody who reads. The streams are the reader's to close. When ctx ends, the hosts that
	// have not been reached fail, and nothing is done to the others.
	Dial(ctx context.Context, hosts []Host) <-chan Result

	// Route tells people how a host would be reached, in a few words. It connects to nobody.
	Route(host Host) (string, error)
}

// A Result is what came of one host of a set.
type Result struct {
	Index  int                // of the host in the set, from 0
	Stream io.ReadWriteCloser // standard input and output of its helper; nil with an error
	Err    error
}

// DialEach dials all hosts of a set at once, each by itself: it is Way.Dial for ways that reach one
// host at a time. How many are really under way is for dial to limit (sshx.Pacer).
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

// A PanicError is the error of a panic in a goroutine that serves one host. It is our own fault, and
// that host's end alone (TRUST-35).
type PanicError struct {
	Value any    // what panic was called with
	Stack []byte // for the log
}

// NewPanicError makes an error of what recover has returned, in the function that has called it.
func NewPanicError(why any) *PanicError { return &PanicError{why, debug.Stack()} }

func (c *PanicError) Error() string { return fmt.Sprintf("internal error: %v", c.Value) }

// dialRecovered is dial, whose panics are errors.
func dialRecovered(ctx context.Context, host Host, dial func(context.Context, Host) (io.ReadWriteCloser, error)) (stream io.ReadWriteCloser, err error) {
	defer func() {
		if why := recover(); why != nil {
			err = NewPanicError(why)
		}
	}()
	return dial(ctx, host)
}

// Transports are those of one command line.
type Transports struct {
	Local  Transport // to this machine
	Remote Transport // to all others
}

var _ Transport = Transports{}

// Dial lets each way dial those hosts of the set that are its own, with one call.
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

// A transportHosts is the hosts of a set that go by one way.
type transportHosts struct {
	transport Transport
	hosts     []Host
	at        []int // of each of them in the set
}

// splitByTransport deals a set of hosts to the ways. A way without hosts has no subset.
func (w Transports) splitByTransport(hosts []Host) (subsets []transportHosts) {
	here, there := transportHosts{transport: w.Local}, transportHosts{transport: w.Remote}
	for i, host := range hosts {
		p := &there
		if host.Local {
			p = &here
		}
		p.hosts, p.at = append(p.hosts, host), append(p.at, i)
	}
	for _, p := range []transportHosts{here, there} {
		if len(p.hosts) > 0 {
			subsets = append(subsets, p)
		}
	}
	return subsets
}

// Route is that of the host's own way.
func (w Transports) Route(host Host) (string, error) {
	if host.Local {
		return w.Local.Route(host)
	}
	return w.Remote.Route(host)
}

// A Fallback reaches all hosts of a job by First or, where that fails on one of them, all by Second: never some by one
// and some by the other (rm-integration.md RM-30). The first set that is dialled decides, for good: what fails later,
// when ranks may run, is an error of its host as anywhere.
//
//	the first set --First--> all are reached ------------------------> First from now on
//	                    '--> one is not: what was reached is closed --> Second from now on
//
// Nothing is told of the first set before all of it is known. Its fields must not change after the first Dial.
type Fallback struct {
	First, Second Transport
	Failed        func(host Host, err error) // called once, before Second is used; nil: nobody wants to know

	deciding sync.Mutex
	decided  Transport // nil: not decided
}

var _ Transport = (*Fallback)(nil)

// Dial is that of the way that was decided for, or decides.
func (f *Fallback) Dial(ctx context.Context, hosts []Host) <-chan Result {
	results := make(chan Result, len(hosts))
	go func() {
		defer close(results)
		way, reached := f.decide(ctx, hosts)
		if reached == nil {
			for r := range way.Dial(ctx, hosts) {
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

// decide is the way, and what has come of these hosts if they were dialled by it to find out. Sets that are
// dialled meanwhile wait.
func (f *Fallback) decide(ctx context.Context, hosts []Host) (way Transport, reached []Result) {
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

// warrantsFallback reports whether a way has failed that might have worked: not that a host has no business with it, or that
// nobody waits for it any more.
func warrantsFallback(err error) bool {
	var e *Error
	return err != nil && (!errors.As(err, &e) || e.Kind != KindConfig && e.Kind != KindCanceled)
}

// closeStreams closes the streams of a set, side by side, since each may take its time.
func closeStreams(set []Result) {
	var closing sync.WaitGroup
	for _, r := range set {
		if r.Stream != nil {
			closing.Go(func() { r.Stream.Close() })
		}
	}
	closing.Wait()
}

// Route is that of the way that was decided for, or of the first.
func (f *Fallback) Route(host Host) (string, error) {
	f.deciding.Lock()
	defer f.deciding.Unlock()
	if f.decided != nil {
		return f.decided.Route(host)
	}
	return f.First.Route(host)
}

// LocalOverride is a way that takes hosts that Is says so of for this machine, whatever they were taken for.
type LocalOverride struct {
	Transports
	IsLocal func(Host) bool
}

// Dial asks for each host which machine it is.
func (h LocalOverride) Dial(ctx context.Context, hosts []Host) <-chan Result {
	hosts = slices.Clone(hosts)
	for i := range hosts {
		hosts[i].Local = h.IsLocal(hosts[i])
	}
	return h.Transports.Dial(ctx, hosts)
}

// Unreachable is the way to hosts that a command line has none to.
type Unreachable struct {
	Why       string // the error of each host; its name comes before it
	RouteText string // in the place of a route
}

var _ Transport = Unreachable{}

// Dial fails for each host.
func (n Unreachable) Dial(ctx context.Context, hosts []Host) <-chan Result {
	return DialEach(ctx, hosts, func(context.Context, Host) (io.ReadWriteCloser, error) { return nil, errors.New(n.Why) })
}

// Route says that there is none.
func (n Unreachable) Route(Host) (string, error) { return n.RouteText, nil }
