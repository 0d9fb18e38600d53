package names

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"remshell/format"
	"remshell/job"
	"remshell/launch"
	"remshell/launch/node"
	"remshell/launch/supervise"
	"remshell/usererr"
	"remshell/wire"
)

/*
A place is mpiexec's connection to the helper that keeps the job's names in the ledger of one host (--names user). The
first request opens it, and it lasts until the attempt ends. Jobs that use the same host find each other's names:

	mpiexec of job A         the host's ledger              mpiexec of job B
	  | LedgerName: publish --> helper of A                      |
	  | <-- LedgerNameReply      |  name-HASH-RANDOM, locked     |
	  |                          '------> helper of B <-- LedgerName: look up
	  |                                        | LedgerNameReply --> |
	  |                          changes ----> | <------- AwaitNames |  while nodes wait for a name
	  |                                        | NamesChanged -----> |  they look it up again

Only the goroutine that supervises the job uses the fields above mu. If the connection to the helper is lost, all later
requests fail.
*/
type place struct {
	job   *launch.Job
	scope *Scope
	waitingNodes

	state    placeState
	err      error    // why state is lost
	queued   []func() // requests that wait for the connection
	replies  map[int]func(*LedgerNameReply)
	lastID   int
	awaiting bool            // an AwaitNames has no reply yet
	seen     int             // number of the last NamesChanged
	foreign  map[string]bool // names of other users that were reported

	ctx  context.Context // ends with the attempt
	stop context.CancelFunc

	mu     sync.Mutex // guards the fields below
	node   *node.Node // nil: not connected
	closed bool       // the attempt is over
}

type placeState int

const (
	notOpened placeState = iota
	opening
	opened
	lost
)

// maxForeignReported is the maximum number of other users' names whose use a job reports.
const maxForeignReported = 16

func newPlace(j *launch.Job, scope *Scope) *place {
	p := &place{job: j, scope: scope, replies: make(map[int]func(*LedgerNameReply)), foreign: make(map[string]bool)}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// handleRequest sends a node's request about a name to the helper that keeps the names. When this helper has replied,
// mpiexec replies to the node.
func (p *place) handleRequest(n *launch.Node, m *NameRequest) []supervise.Event {
	op := m.Op
	if op == LookupWait {
		op = Lookup
		if err := p.addWaiting(n, m.Service); err != nil {
			n.Send(&NameReply{ID: m.ID, Err: err.Error()})
			return nil
		}
		p.do(p.awaitChange) // before the look-up, so that no publication is missed
	}
	p.do(func() {
		p.ask(&LedgerName{Op: op, Service: m.Service, Port: m.Port, Value: m.Value, FirstReadOnly: m.FirstReadOnly}, func(r *LedgerNameReply) {
			if r.OK && r.User != "" {
				p.reportForeign(m.Service, r)
			}
			n.Send(&NameReply{ID: m.ID, OK: r.OK, Port: r.Port, Err: r.Err, Value: r.Value, FirstReadOnly: r.FirstReadOnly && r.User == ""})
		})
	})
	return nil
}

// do calls request as soon as the place is connected or the connection has failed. The first call of do starts the
// connection.
func (p *place) do(request func()) {
	switch p.state {
	case opened, lost:
		request()
	case notOpened:
		p.state = opening
		go p.open()
		fallthrough
	default:
		p.queued = append(p.queued, request)
	}
}

// ask sends a request. It calls handle with the reply, or with an error if the connection is lost.
func (p *place) ask(m *LedgerName, handle func(*LedgerNameReply)) {
	if p.state == lost {
		handle(&LedgerNameReply{Err: p.err.Error()})
		return
	}
	p.lastID++
	m.ID, m.Job, m.AnyUser, m.Ledger = p.lastID, p.job.Plan.Job, p.scope.AnyUser, p.job.Request.Queue.LedgerDir
	m.Silence = p.node.MaxSilence(p.job.Env.SilenceLimit)
	p.replies[m.ID] = handle
	p.node.Send(m) // if this fails, the place is lost, and handle gets that error
}

// awaitChange requests a report of the next change of names, unless it has requested one already.
func (p *place) awaitChange() {
	if p.state == opened && !p.awaiting && len(p.nodesOf) > 0 {
		p.awaiting = true
		p.node.Send(&AwaitNames{Ledger: p.job.Request.Queue.LedgerDir, AnyUser: p.scope.AnyUser, Seen: p.seen})
	}
}

// handleMessage handles a message of the helper that keeps the names.
func (p *place) handleMessage(m wire.Message) {
	switch m := m.(type) {
	case *LedgerNameReply:
		if handle := p.replies[m.ID]; handle != nil {
			delete(p.replies, m.ID)
			handle(m)
		}
	case *NamesChanged:
		p.awaiting, p.seen = false, m.Number
		for service := range p.nodesOf {
			for waiting := range p.takeWaiting(service) {
				waiting.Send(&NamePublished{Service: service})
			}
		}
	}
}

// internalPrefix is the prefix of the names by which the PMIx servers of two jobs exchange data (rule PMIX-45).
const internalPrefix = "remshell-"

// reportForeign reports to the user that a rank has found a name of another user. It does not report internal names,
// of which ranks know nothing.
func (p *place) reportForeign(service string, r *LedgerNameReply) {
	if strings.HasPrefix(service, internalPrefix) {
		return
	}
	if key := r.User + "\n" + service; !p.foreign[key] && len(p.foreign) < maxForeignReported {
		p.foreign[key] = true
		p.job.Env.Report(fmt.Sprintf("--names all: user %s has published the name %s, with the port %s", format.EscapeField(r.User), format.EscapeField(service), format.EscapeField(r.Port)))
	}
}

// open connects to the first host that can be reached, and then handles the messages of its helper until the connection
// is lost. It runs on a goroutine of its own.
func (p *place) open() {
	inbox := node.NewInbox()
	n, err := p.connect()
	p.mu.Lock()
	if err == nil && p.closed {
		n.Close()
		err = launch.ErrJobEnding
	}
	if err == nil {
		p.node = n
	}
	p.mu.Unlock()
	if err != nil {
		p.post(func() { p.handleLoss(err) })
		return
	}
	p.post(func() { p.setState(opened) })
	listener := node.Listener{Inbox: inbox, Log: p.job.Env.Log}
	go listener.Listen(n)
	for {
		events := inbox.Take(p.ctx, time.Time{})
		if len(events) == 0 {
			return
		}
		for _, event := range events {
			switch e := event.(type) {
			case node.NodeMessage:
				p.post(func() { p.handleMessage(e.Message) })
			case node.Disconnected:
				p.post(func() {
					p.handleLoss(fmt.Errorf("mpiexec lost its helper on %s, which keeps the published names: %s", n.Name(), usererr.Reason(e.Err)))
				})
				return
			}
		}
	}
}

// post makes the goroutine that supervises the job call the function do.
func (p *place) post(do func()) {
	p.job.Post(func() []supervise.Event {
		do()
		return nil
	})
}

// connect connects to the first reachable host among those that may keep the names.
func (p *place) connect() (*node.Node, error) {
	hosts, err := p.hosts()
	if err != nil {
		return nil, fmt.Errorf("--names: %w", err)
	}
	var failed []error
	for _, host := range hosts {
		n, err := p.job.Env.ConnectOne(p.ctx, host)
		if err == nil {
			return n, nil
		}
		failed = append(failed, fmt.Errorf("cannot keep the published names on %s: %s", host.Name, usererr.Reason(err)))
	}
	return nil, failed[0]
}

// hosts returns the hosts that may keep the names, in the order in which mpiexec tries to connect to them.
func (p *place) hosts() ([]job.NodeDef, error) {
	queueHosts := p.job.Request.Queue.QueueHosts()
	switch {
	case p.scope.Host == "" && len(queueHosts) > 0:
		return queueHosts, nil
	case p.job.Env.FindHosts == nil:
		return nil, errors.New("this job cannot look up hosts")
	}
	name := p.scope.Host
	if name == "" {
		name = "localhost"
	}
	hosts, err := p.job.Env.FindHosts(name)
	if err == nil && len(hosts) != 1 {
		err = fmt.Errorf("-nameserver %s must name one host, not %d", format.EscapeField(name), len(hosts))
	}
	return hosts, err
}

// handleLoss handles the loss of the connection: all waiting and all later requests fail. It reports the cause to
// the user once.
func (p *place) handleLoss(cause error) {
	if p.state == lost {
		return
	}
	if p.ctx.Err() == nil {
		p.job.Env.Report(cause.Error() + "; ranks can no longer publish names or look them up")
	}
	p.err = cause
	for id, handle := range p.replies {
		delete(p.replies, id)
		handle(&LedgerNameReply{Err: cause.Error()})
	}
	for service := range p.nodesOf { // they look the name up again, and get the error
		for waiting := range p.takeWaiting(service) {
			waiting.Send(&NamePublished{Service: service})
		}
	}
	p.setState(lost)
}

// setState sets the state, and then calls the functions that do has queued until the connection is made or has
// failed.
func (p *place) setState(state placeState) {
	p.state = state
	queued := p.queued
	p.queued = nil
	for _, request := range queued {
		request()
	}
}

// close closes the connection at the end of the attempt (one run of all ranks). The helper then removes the
// job's names.
func (p *place) close() {
	p.stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.node != nil {
		p.node.Send(&wire.Bye{})
		p.node.Close()
	}
}
