package reserve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"remshell/fault"
	"remshell/hostlist"
	"remshell/job"
	"remshell/launch/node"
	"remshell/timeline"
	"remshell/wire"
)

/*
Parcels (--stage) go to the nodes of a plan when all are ready, and before any rank starts:
so a node that gets no ranks gets nothing, and the gate of the queue is open meanwhile.

	                      .--> porter: reads a piece, encodes it once, and sends it to all
	Run: stage --starts---'     that want it and have leave for it
	   ^ Wanted, Took, Staged      |
	   '----- node <--- Piece -----'

The slowest node sets the pace, as the job waits for it anyway; so there is never more in
memory than one window, however many nodes there are.
*/
type porter struct {
	parcels []job.Parcel
	cargo   []Cargo

	mu    sync.Mutex // guards the rest
	lanes map[*host]*lane
	ended bool
	more  sync.Cond
	sent  int64 // for one node or for many
}

// A lane leads to one node.
type lane struct {
	wanted []int // parcels, ascending
	credit int
}

// ported is the end of a porter's work; summed that of its preparation.
type (
	ported struct{ err error }
	summed struct {
		sums []string
		err  error
	}
)

// A staging is how far the parcels of a job, or of a spawn, have come.
type staging struct {
	*reservation
	porter  *porter
	asked   map[*host]bool // they have not said what they want
	waiting map[*host]bool // they do not have everything
	failed  []job.Failure
	steps   map[*host]timeline.Step // of those, and of those that had everything
	resume  func()                  // to be called when the files have been read, which takes as long as they are large
	err     error                   // of this machine
}

// errStaging is the cause of the end of a staging that took too long.
var errStaging = errors.New("files were not staged in time")

// stage brings the parcels to the nodes of the plan that have none yet. The nodes may take as long as a start, and longer if
// they take the files at deadline.Rate; until startBy everything must have come if the user said so.
func (r *reservation) stage(ctx context.Context, startBy node.Due) (until node.Due, err error) {
	nodes := slices.DeleteFunc(slices.Clone(r.chosen), func(n *host) bool { return n.staged })
	if len(r.req.Parcels) == 0 || len(nodes) == 0 {
		return startBy, nil
	}
	s := &staging{reservation: r, asked: make(map[*host]bool), waiting: make(map[*host]bool)}
	timed, done := r.within(ctx, errStaging)
	defer done()
	if r.req.Limits.Start > 0 {
		r.limit.Next(time.Until(startBy.Time()))
	}
	s.porter = &porter{parcels: r.req.Parcels, cargo: r.env.Cargo, lanes: make(map[*host]*lane)}
	s.porter.more.L = &s.porter.mu
	defer s.porter.end()
	staging := r.env.Timeline.Begin(r.env.Row, timeline.Stage)
	defer func() {
		staging.End(err)
		for _, step := range s.steps {
			step.End(err)
		}
	}()
	far := s.begin(nodes)
	stop := s.show(len(far))
	defer stop()
	for len(s.waiting) > 0 && len(s.failed) == 0 && s.err == nil {
		events := r.events(timed, time.Time{})
		if len(events) == 0 {
			return startBy, cmp.Or(context.Cause(ctx), error(s.late()))
		}
		for _, event := range events {
			s.handle(event, far)
		}
	}
	if err := s.outcome(); err != nil {
		return startBy, err
	}
	for _, n := range nodes {
		n.staged = true
	}
	if r.req.Limits.Start == 0 {
		startBy = r.env.Pauses.Due(StartLimit(r.req))
	}
	return startBy, nil
}

// next gives the nodes the time for the next step, unless the user has said how long all of it may take.
func (s *staging) next() {
	if s.req.Limits.Start == 0 {
		s.limit.Next(StartLimit(s.req))
	}
}

// begin tells this machine's own nodes that all is there, and has the hashes made for the
// others, which it returns.
func (s *staging) begin(nodes []*host) (far []*host) {
	s.steps = make(map[*host]timeline.Step, len(nodes))
	for _, n := range nodes {
		s.waiting[n] = true
		s.steps[n] = s.env.Timeline.Begin(timeline.Row{Host: n.def.Name}, timeline.Stage)
		if n.def.Local {
			n.Send(&wire.Stage{Parcels: s.req.Parcels, Here: true})
			continue
		}
		s.asked[n] = true
		far = append(far, n)
	}
	if len(far) > 0 {
		s.resume = s.pauseLimit()
		inbox, porter := s.env.Inbox, s.porter
		go func() { inbox.Put(porter.sum()) }()
	}
	return far
}

// handle takes in what happens meanwhile.
func (s *staging) handle(event any, far []*host) {
	switch e := event.(type) {
	case message:
		if s.waiting[e.from] && s.message(e.from, e.m) {
			return
		}
	case summed:
		if s.err = e.err; s.err == nil {
			s.resume()
			s.next()
			for _, n := range far {
				n.Send(&wire.Stage{Parcels: s.req.Parcels, Sums: e.sums})
			}
		}
		return
	case ported:
		s.err = e.err
		return
	case disconnected:
		if slices.Contains(s.chosen, e.from) {
			s.fail(e.from, fmt.Errorf("lost contact while files were staged (%s)", fault.Reason(e.err)))
		}
	}
	s.reservation.handle(event)
}

// message takes in what a node says, and reports whether it is about parcels.
func (s *staging) message(n *host, m wire.Message) bool {
	switch m := m.(type) {
	case *wire.Wanted: // once of each node
		s.next()
		s.porter.lead(n, m.Parcels)
		if delete(s.asked, n); len(s.asked) == 0 {
			inbox, porter := s.env.Inbox, s.porter
			go func() { inbox.Put(ported{porter.run()}) }()
		}
	case *wire.Took:
		s.porter.grant(n, m.Bytes)
		if s.req.Limits.Start == 0 {
			s.limit.Took(m.Bytes)
		}
	case *wire.Staged: // once of each node
		s.next()
		delete(s.waiting, n)
		if m.Reason == "" {
			s.steps[n].End(nil)
		} else {
			s.fail(n, &fault.Error{Text: m.Reason, Remedy: m.Hint, Code: m.Code})
		}
	default:
		return false
	}
	return true
}

func (s *staging) fail(n *host, err error) {
	s.steps[n].End(err)
	s.failed = append(s.failed, job.Failure{Node: n.Name(), Origin: n.def.Origin, Err: err})
}

// outcome is why the parcels did not come; nil: they did.
func (s *staging) outcome() error {
	if s.err != nil {
		return s.err
	}
	if len(s.failed) > 0 {
		return &HostsError{Failed: s.failed}
	}
	var names []string
	for _, p := range s.req.Parcels {
		names = append(names, p.Name)
	}
	s.env.Log.Info().Strs("files", names).Int64("bytes sent", s.porter.sent).Msg("staged")
	return nil
}

// late is what is said when it took too long: of the nodes that have not taken what was sent to them, since the others wait for
// these; or, if there are none, of all that are not ready.
func (s *staging) late() *fault.Error {
	var names, owing []string
	for n := range s.waiting {
		names = append(names, n.Name())
		if s.porter.owes(n) {
			owing = append(owing, n.Name())
		}
	}
	if len(owing) > 0 {
		names = owing
	}
	slices.Sort(names)
	return &fault.Error{Text: fmt.Sprintf("%s: files were not staged within %v", hostlist.Fold(names), StartLimit(s.req)),
		Remedy: "raise --start-timeout, or see with -v what takes so long", Code: job.ExitInternal}
}

// show tells on a terminal how far the files have come, if that takes long.
func (s *staging) show(nodes int) (stop func()) {
	if s.env.Progress == nil || nodes == 0 {
		return func() {}
	}
	var all int64
	for _, p := range s.req.Parcels {
		all += p.Size
	}
	p := &progress{env: s.env, quit: make(chan struct{}), over: make(chan struct{})}
	p.words = func(time.Duration) string {
		s.porter.mu.Lock()
		defer s.porter.mu.Unlock()
		return fmt.Sprintf("staging files: %d of %d MiB to %d hosts", s.porter.sent>>20, all>>20, nodes)
	}
	go p.run()
	return func() { close(p.quit); <-p.over }
}

// sum makes the hashes of all parcels.
func (p *porter) sum() summed {
	var sums []string
	for i, c := range p.cargo {
		sum, err := c.Sum()
		if err != nil {
			return summed{err: unread(p.parcels[i], err)}
		}
		sums = append(sums, sum)
	}
	return summed{sums: sums}
}

// unread is the error of a parcel on this machine.
func unread(p job.Parcel, err error) *fault.Error {
	return &fault.Error{Text: fmt.Sprintf("--stage %s: %v", p.Path, err), Code: job.ExitInternal}
}

// lead notes what a node wants.
func (p *porter) lead(n *host, wanted []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lanes[n] = &lane{wanted, wire.StageWindow}
}

// grant gives leave for more.
func (p *porter) grant(n *host, bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.lanes[n]; l != nil {
		l.credit = min(l.credit+bytes, wire.StageWindow)
	}
	p.more.Signal()
}

// owes reports whether a node has not taken so much that it may have no further piece.
func (p *porter) owes(n *host) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lanes[n]
	return l != nil && l.credit < wire.PieceSize
}

// end ends the work.
func (p *porter) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.more.Signal()
}

// run sends one parcel after the other.
func (p *porter) run() error {
	for i := range p.parcels {
		if err := p.send(i); err != nil {
			return unread(p.parcels[i], err)
		}
	}
	return nil
}

// send sends a parcel to all that want it.
func (p *porter) send(i int) error {
	to := p.leading(i)
	buf := make([]byte, wire.PieceSize)
	for at, size := int64(0), p.parcels[i].Size; len(to) > 0 && at < size; {
		piece := buf[:min(size-at, wire.PieceSize)]
		if !p.await(to, len(piece)) {
			return nil
		}
		if n, err := p.cargo[i].ReadAt(piece, at); n < len(piece) {
			if err == io.EOF {
				err = fmt.Errorf("it became shorter while it was sent")
			}
			return err
		}
		m := wire.Piece{Parcel: i, Bytes: piece}
		frame := m.FrameFor(len(to))
		for _, n := range to {
			n.SendPiece(len(piece), frame)
		}
		at += int64(len(piece))
	}
	return nil
}

// leading are the nodes that want a parcel.
func (p *porter) leading(i int) (to []*host) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n, l := range p.lanes {
		if slices.Contains(l.wanted, i) {
			to = append(to, n)
		}
	}
	slices.SortFunc(to, func(x, y *host) int { return strings.Compare(x.Name(), y.Name()) })
	return to
}

// await waits until all nodes may have so many bytes, and takes their leave; false: it is
// all over.
func (p *porter) await(to []*host, bytes int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for slices.ContainsFunc(to, func(n *host) bool { return p.lanes[n].credit < bytes }) && !p.ended {
		p.more.Wait()
	}
	for _, n := range to {
		p.lanes[n].credit -= bytes
	}
	p.sent += int64(bytes)
	return !p.ended
}
