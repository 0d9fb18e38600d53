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

	"remshell/hostlist"
	"remshell/job"
	"remshell/launch/node"
	"remshell/trace"
	"remshell/usererr"
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
type fileSender struct {
	files    []job.StagedFile
	contents []FileContent

	mu        sync.Mutex // guards the rest
	receivers map[*host]*receiver
	ended     bool
	changed   sync.Cond
	bytesSent int64 // for one node or for many
}

// A receiver leads to one node.
type receiver struct {
	missing []int // parcels, ascending
	credit  int
}

// sendDone is the end of a porter's work; summed that of its preparation.
type (
	sendDone      struct{ err error }
	checksumsDone struct {
		checksums []string
		err       error
	}
)

// A staging is how far the parcels of a job, or of a spawn, have come.
type staging struct {
	*reservation
	sender      *fileSender
	unanswered  map[*host]bool // they have not said what they want
	incomplete  map[*host]bool // they do not have everything
	failed      []job.Failure
	steps       map[*host]trace.Step // of those, and of those that had everything
	resumeLimit func()               // to be called when the files have been read, which takes as long as they are large
	err         error                // of this machine
}

// errStagingTimeout is the cause of the end of a staging that took too long.
var errStagingTimeout = errors.New("files were not staged in time")

// stageFiles brings the parcels to the nodes of the plan that have none yet. The nodes may take as long as a start, and longer if
// they take the files at deadline.MinRate; until startBy everything must have come if the user said so.
func (r *reservation) stageFiles(ctx context.Context, startBy node.Deadline) (until node.Deadline, err error) {
	nodes := slices.DeleteFunc(slices.Clone(r.planHosts), func(n *host) bool { return n.staged })
	if len(r.req.StagedFiles) == 0 || len(nodes) == 0 {
		return startBy, nil
	}
	s := &staging{reservation: r, unanswered: make(map[*host]bool), incomplete: make(map[*host]bool)}
	timed, done := r.withinLimit(ctx, errStagingTimeout)
	defer done()
	if r.req.TimeLimits.Start > 0 {
		r.limit.BeginStep(time.Until(startBy.Time()))
	}
	s.sender = &fileSender{files: r.req.StagedFiles, contents: r.env.FileContents, receivers: make(map[*host]*receiver)}
	s.sender.changed.L = &s.sender.mu
	defer s.sender.stop()
	staging := r.env.Trace.Begin(r.env.TraceRow, trace.Stage)
	defer func() {
		staging.End(err)
		for _, step := range s.steps {
			step.End(err)
		}
	}()
	far := s.announceFiles(nodes)
	stop := s.showProgress(len(far))
	defer stop()
	for len(s.incomplete) > 0 && len(s.failed) == 0 && s.err == nil {
		events := r.takeEvents(timed, time.Time{})
		if len(events) == 0 {
			return startBy, cmp.Or(context.Cause(ctx), error(s.timeoutError()))
		}
		for _, event := range events {
			s.handle(event, far)
		}
	}
	if err := s.finalError(); err != nil {
		return startBy, err
	}
	for _, n := range nodes {
		n.staged = true
	}
	if r.req.TimeLimits.Start == 0 {
		startBy = r.env.StopTimes.Deadline(StartTimeout(r.req))
	}
	return startBy, nil
}

// beginNextStep gives the nodes the time for the next step, unless the user has said how long all of it may take.
func (s *staging) beginNextStep() {
	if s.req.TimeLimits.Start == 0 {
		s.limit.BeginStep(StartTimeout(s.req))
	}
}

// announceFiles tells this machine's own nodes that all is there, and has the hashes made for the
// others, which it returns.
func (s *staging) announceFiles(nodes []*host) (far []*host) {
	s.steps = make(map[*host]trace.Step, len(nodes))
	for _, n := range nodes {
		s.incomplete[n] = true
		s.steps[n] = s.env.Trace.Begin(trace.Row{Host: n.def.Name}, trace.Stage)
		if n.def.Local {
			n.Send(&wire.StageFiles{Files: s.req.StagedFiles, InPlace: true})
			continue
		}
		s.unanswered[n] = true
		far = append(far, n)
	}
	if len(far) > 0 {
		s.resumeLimit = s.pauseStartLimit()
		inbox, porter := s.env.Inbox, s.sender
		go func() { inbox.Put(porter.checksumAll()) }()
	}
	return far
}

// handle takes in what happens meanwhile.
func (s *staging) handle(event any, far []*host) {
	switch e := event.(type) {
	case message:
		if s.incomplete[e.from] && s.handleMessage(e.from, e.m) {
			return
		}
	case checksumsDone:
		if s.err = e.err; s.err == nil {
			s.resumeLimit()
			s.beginNextStep()
			for _, n := range far {
				n.Send(&wire.StageFiles{Files: s.req.StagedFiles, Sums: e.checksums})
			}
		}
		return
	case sendDone:
		s.err = e.err
		return
	case disconnected:
		if slices.Contains(s.planHosts, e.from) {
			s.nodeFailed(e.from, fmt.Errorf("lost contact while files were staged (%s)", usererr.Reason(e.err)))
		}
	}
	s.reservation.handleEvent(event)
}

// handleMessage takes in what a node says, and reports whether it is about parcels.
func (s *staging) handleMessage(n *host, m wire.Message) bool {
	switch m := m.(type) {
	case *wire.MissingFiles: // once of each node
		s.beginNextStep()
		s.sender.addReceiver(n, m.Files)
		if delete(s.unanswered, n); len(s.unanswered) == 0 {
			inbox, porter := s.env.Inbox, s.sender
			go func() { inbox.Put(sendDone{porter.sendAll()}) }()
		}
	case *wire.FileCredit:
		s.sender.addCredit(n, m.Bytes)
		if s.req.TimeLimits.Start == 0 {
			s.limit.CountTaken(m.Bytes)
		}
	case *wire.StageResult: // once of each node
		s.beginNextStep()
		delete(s.incomplete, n)
		if m.Reason == "" {
			s.steps[n].End(nil)
		} else {
			s.nodeFailed(n, &usererr.Error{Text: m.Reason, Remedy: m.Hint, Code: m.Code})
		}
	default:
		return false
	}
	return true
}

func (s *staging) nodeFailed(n *host, err error) {
	s.steps[n].End(err)
	s.failed = append(s.failed, job.Failure{Node: n.Name(), Origin: n.def.Origin, Err: err})
}

// finalError is why the parcels did not come; nil: they did.
func (s *staging) finalError() error {
	if s.err != nil {
		return s.err
	}
	if len(s.failed) > 0 {
		return &HostsError{Failed: s.failed}
	}
	var names []string
	for _, p := range s.req.StagedFiles {
		names = append(names, p.Name)
	}
	s.env.Log.Info().Strs("files", names).Int64("bytes sent", s.sender.bytesSent).Msg("staged")
	return nil
}

// timeoutError is what is said when it took too long: of the nodes that have not taken what was sent to them, since the others wait for
// these; or, if there are none, of all that are not ready.
func (s *staging) timeoutError() *usererr.Error {
	var names, owing []string
	for n := range s.incomplete {
		names = append(names, n.Name())
		if s.sender.hasNoCredit(n) {
			owing = append(owing, n.Name())
		}
	}
	if len(owing) > 0 {
		names = owing
	}
	slices.Sort(names)
	return &usererr.Error{Text: fmt.Sprintf("%s: files were not staged within %v", hostlist.Fold(names), StartTimeout(s.req)),
		Remedy: "raise --start-timeout, or see with -v what takes so long", Code: job.ExitInternal}
}

// showProgress tells on a terminal how far the files have come, if that takes long.
func (s *staging) showProgress(nodes int) (stop func()) {
	if s.env.Progress == nil || nodes == 0 {
		return func() {}
	}
	var all int64
	for _, p := range s.req.StagedFiles {
		all += p.Size
	}
	p := &startProgress{env: s.env, quit: make(chan struct{}), over: make(chan struct{})}
	p.lineAt = func(time.Duration) string {
		s.sender.mu.Lock()
		defer s.sender.mu.Unlock()
		return fmt.Sprintf("staging files: %d of %d MiB to %d hosts", s.sender.bytesSent>>20, all>>20, nodes)
	}
	go p.run()
	return func() { close(p.quit); <-p.over }
}

// checksumAll makes the hashes of all parcels.
func (p *fileSender) checksumAll() checksumsDone {
	var sums []string
	for i, c := range p.contents {
		sum, err := c.Checksum()
		if err != nil {
			return checksumsDone{err: unreadableError(p.files[i], err)}
		}
		sums = append(sums, sum)
	}
	return checksumsDone{checksums: sums}
}

// unreadableError is the error of a parcel on this machine.
func unreadableError(p job.StagedFile, err error) *usererr.Error {
	return &usererr.Error{Text: fmt.Sprintf("--stage %s: %v", p.Path, err), Code: job.ExitInternal}
}

// addReceiver notes what a node wants.
func (p *fileSender) addReceiver(n *host, wanted []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.receivers[n] = &receiver{wanted, wire.StageWindow}
}

// addCredit gives leave for more.
func (p *fileSender) addCredit(n *host, bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.receivers[n]; l != nil {
		l.credit = min(l.credit+bytes, wire.StageWindow)
	}
	p.changed.Signal()
}

// hasNoCredit reports whether a node has not taken so much that it may have no further piece.
func (p *fileSender) hasNoCredit(n *host) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.receivers[n]
	return l != nil && l.credit < wire.FileChunkSize
}

// stop ends the work.
func (p *fileSender) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.changed.Signal()
}

// sendAll sends one parcel after the other.
func (p *fileSender) sendAll() error {
	for i := range p.files {
		if err := p.sendFile(i); err != nil {
			return unreadableError(p.files[i], err)
		}
	}
	return nil
}

// sendFile sends a parcel to all that want it.
func (p *fileSender) sendFile(i int) error {
	to := p.receiversOf(i)
	buf := make([]byte, wire.FileChunkSize)
	for at, size := int64(0), p.files[i].Size; len(to) > 0 && at < size; {
		piece := buf[:min(size-at, wire.FileChunkSize)]
		if !p.waitForCredit(to, len(piece)) {
			return nil
		}
		if n, err := p.contents[i].ReadAt(piece, at); n < len(piece) {
			if err == io.EOF {
				err = fmt.Errorf("it became shorter while it was sent")
			}
			return err
		}
		m := wire.FileChunk{File: i, Bytes: piece}
		frame := m.FrameFor(len(to))
		for _, n := range to {
			n.SendPiece(len(piece), frame)
		}
		at += int64(len(piece))
	}
	return nil
}

// receiversOf are the nodes that want a parcel.
func (p *fileSender) receiversOf(i int) (to []*host) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n, l := range p.receivers {
		if slices.Contains(l.missing, i) {
			to = append(to, n)
		}
	}
	slices.SortFunc(to, func(x, y *host) int { return strings.Compare(x.Name(), y.Name()) })
	return to
}

// waitForCredit waits until all nodes may have so many bytes, and takes their leave; false: it is
// all over.
func (p *fileSender) waitForCredit(to []*host, bytes int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for slices.ContainsFunc(to, func(n *host) bool { return p.receivers[n].credit < bytes }) && !p.ended {
		p.changed.Wait()
	}
	for _, n := range to {
		p.receivers[n].credit -= bytes
	}
	p.bytesSent += int64(bytes)
	return !p.ended
}
