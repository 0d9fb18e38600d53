//go:build linux

package names

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"remshell/helper"
	"remshell/helper/probe"
	"remshell/ledger"
)

// A holder keeps the published names of a job in the ledger of this host, a directory that jobs on the host
// share. A goroutine, the worker, handles one request after another, because access to the ledger may be
// slow. When the session ends for any reason, the names are removed.
type holder struct {
	session *helper.Session
	ctx     context.Context // ends with the session
	stop    context.CancelFunc

	mu      sync.Mutex // guards the fields below
	tasks   []func()   // for the worker
	added   chan struct{}
	worker  chan struct{} // closed when the worker has ended; nil: it has not been started
	changes int           // reports of changes so far
	awaited *AwaitNames   // request without a reply; nil: none
	watches bool          // watch runs

	// The worker owns these:
	dir  *ledger.Dir // nil: not opened yet
	held map[string]*ledger.HeldName
}

// maxHeldNames is the maximum number of names that a job may have published at a time (rule TRUST-24).
const maxHeldNames = 1024

var errTooManyNames = errors.New("the job has published too many names")

// attachHolder makes the helper of a session keep the names of the job, if mpiexec requests that.
func attachHolder(s *helper.Session) {
	h := &holder{session: s, added: make(chan struct{}, 1), held: make(map[string]*ledger.HeldName)}
	h.ctx, h.stop = context.WithCancel(context.Background())
	helper.Handle(s, func(m *LedgerName) {
		s.WatchLink(m.Silence)
		h.run(func() { s.Send(h.serve(m)) })
	})
	helper.Handle(s, func(m *AwaitNames) { h.run(func() { h.await(m) }) })
	s.Hooks.Closing.Add(h.close)
}

// run queues a task for the worker goroutine, and starts the worker if necessary. It never blocks.
func (h *holder) run(task func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tasks = append(h.tasks, task)
	if h.worker == nil {
		h.worker = make(chan struct{})
		go h.work()
	}
	select {
	case h.added <- struct{}{}:
	default:
	}
}

// work runs the queued tasks until the session ends, and then removes the names.
func (h *holder) work() {
	defer close(h.worker)
	for {
		select {
		case <-h.added:
			h.mu.Lock()
			tasks := h.tasks
			h.tasks = nil
			h.mu.Unlock()
			for _, task := range tasks {
				if h.ctx.Err() == nil {
					task()
				}
			}
		case <-h.ctx.Done():
			for _, name := range h.held {
				name.Remove()
			}
			return
		}
	}
}

// close removes the names of the job, and waits until they are removed.
func (h *holder) close() {
	h.stop()
	h.mu.Lock()
	worker := h.worker
	h.mu.Unlock()
	if worker != nil {
		<-worker
	}
}

// open opens the ledger, the directory that contains the names. It does so once in each session, and later
// returns the open ledger.
func (h *holder) open(name string) (*ledger.Dir, error) {
	if h.dir == nil {
		dir, err := ledger.Open(name, probe.Identity(h.session.System().Root))
		if err != nil {
			return nil, err
		}
		h.dir = dir
	}
	return h.dir, nil
}

// serve carries out a request of mpiexec and returns the reply.
func (h *holder) serve(m *LedgerName) *LedgerNameReply {
	reply := &LedgerNameReply{ID: m.ID}
	dir, err := h.open(m.Ledger)
	if err == nil {
		switch m.Op {
		case Publish:
			reply.OK, err = h.publish(dir, m)
		case Lookup:
			err = find(dir, m, reply)
		case Unpublish:
			reply.OK = h.unpublish(m.Service)
		default:
			err = fmt.Errorf("mpiexec requested the unknown operation %d on a published name", m.Op)
		}
	}
	if err != nil {
		reply.Err = err.Error()
	}
	return reply
}

// publish publishes a name. added is false if a job of the same user has already published the name.
func (h *holder) publish(dir *ledger.Dir, m *LedgerName) (added bool, err error) {
	h.forgetTaken()
	if len(h.held) >= maxHeldNames {
		return false, errTooManyNames
	}
	held, err := dir.PublishName(h.ctx, ledger.Name{Job: m.Job, UID: os.Geteuid(), Name: []byte(m.Service), Port: []byte(m.Port), Value: m.Value, Once: m.FirstReadOnly}, !m.AnyUser)
	if errors.Is(err, ledger.ErrNameTaken) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if old := h.held[m.Service]; old != nil { // a look-up has removed it
		old.Remove()
	}
	h.held[m.Service] = held
	return true, nil
}

// forgetTaken deletes names that are no longer published from h.held. It does nothing while h.held contains fewer
// than maxHeldNames/2 names.
func (h *holder) forgetTaken() {
	if len(h.held) < maxHeldNames/2 {
		return
	}
	for service, name := range h.held {
		if !name.IsPublished() {
			name.Remove()
			delete(h.held, service)
		}
	}
}

// unpublish removes a name that this job has published. It returns false if the name was no longer published.
func (h *holder) unpublish(service string) bool {
	name := h.held[service]
	if name == nil {
		return false
	}
	delete(h.held, service)
	there := name.IsPublished()
	name.Remove()
	return there
}

// find looks up a name in the ledger (the directory of published names) and sets the reply. If another user has
// published the name, and its port contains characters that are not printable, find treats the name as not published.
// The port becomes part of a line of the PMI protocol.
func find(dir *ledger.Dir, m *LedgerName, reply *LedgerNameReply) error {
	n, ok, err := dir.FindName([]byte(m.Service), m.AnyUser)
	if err != nil || !ok {
		return err
	}
	reply.OK, reply.Port, reply.Value, reply.FirstReadOnly = true, string(n.Port), n.Value, n.Once
	if n.UID != os.Geteuid() {
		reply.User = dir.UserName(n.UID)
		reply.OK = isPrintable(n.Port)
	}
	if !reply.OK {
		*reply = LedgerNameReply{ID: m.ID}
	}
	return nil
}

// isPrintable reports whether a text consists of printable ASCII characters.
func isPrintable(text []byte) bool {
	for _, c := range text {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// await replies to an AwaitNames request as soon as there is a change of which mpiexec does not know yet.
func (h *holder) await(m *AwaitNames) {
	dir, err := h.open(m.Ledger)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.awaited = m
	if err == nil && !h.watches { // on an error, look-ups fail
		h.watches = true
		go dir.WatchNames(h.ctx, m.AnyUser, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.changes++
			h.reportChange()
		})
	}
	h.reportChange()
}

// reportChange sends NamesChanged if mpiexec waits for a change. The caller must hold h.mu.
func (h *holder) reportChange() {
	if h.awaited != nil && h.changes > h.awaited.Seen {
		h.session.Send(&NamesChanged{Number: h.changes})
		h.awaited = nil
	}
}
