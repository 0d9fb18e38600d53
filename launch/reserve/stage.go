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
Staged files (--stage) are sent when all nodes of the plan have replied with Prepared, and before any
rank starts. So nodes without ranks receive nothing, and the decision lock is free meanwhile.

	                      .--> fileSender: reads a chunk, encodes it once, and sends it to
	stageFiles --starts---'     all nodes that miss the file, once they all have credit
	   ^ MissingFiles, FileCredit, StageResult   |
	   '----- node <-------- FileChunk ----------'

The slowest node sets the pace, since the job waits for it anyway. So never more than one window is in
memory, however many nodes there are.
*/
type fileSender struct {
	files    []job.StagedFile
	contents []FileContent

	mu        sync.Mutex // guards the rest
	receivers map[*host]*receiver
	ended     bool
	changed   sync.Cond
	bytesSent int64 // counted once, however many nodes a chunk goes to
}

// A receiver is the state of sending to one node.
type receiver struct {
	missing []int // indices of the files that it misses, ascending
	credit  int
}

// Events of the fileSender: checksumsDone when all checksums are made, sendDone when all files are sent.
type (
	sendDone      struct{ err error }
	checksumsDone struct {
		checksums []string
		err       error
	}
)

// A staging is the state of one call of stageFiles.
type staging struct {
	*reservation
	sender      *fileSender
	unanswered  map[*host]bool // nodes that have not sent MissingFiles
	incomplete  map[*host]bool // nodes that do not have all files
	failed      []job.Failure
	steps       map[*host]trace.Step // open trace steps of the nodes
	resumeLimit func()               // ends the pause of the start timeout while checksums are made; that time depends on the size of the files
	err         error                // error on this machine
}

// errStagingTimeout is the cause with which a staging's context ends after its time limit.
var errStagingTimeout = errors.New("files were not staged in time")

// stageFiles sends the staged files to the nodes of the plan that do not have them yet. The nodes may take
// as long as a start, and longer as long as they receive at deadline.MinRate. If the user has set
// --start-timeout, startBy is the limit instead.
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
	remote := s.announceFiles(nodes)
	stop := s.showProgress(len(remote))
	defer stop()
	for len(s.incomplete) > 0 && len(s.failed) == 0 && s.err == nil {
		events := r.takeEvents(timed, time.Time{})
		if len(events) == 0 {
			return startBy, cmp.Or(context.Cause(ctx), error(s.timeoutError()))
		}
		for _, event := range events {
			s.handle(event, remote)
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

// beginNextStep restarts the time limit for the nodes' next step. It does nothing if the user has set
// --start-timeout.
func (s *staging) beginNextStep() {
	if s.req.TimeLimits.Start == 0 {
		s.limit.BeginStep(StartTimeout(s.req))
	}
}

// announceFiles tells this machine's nodes that all files are in place. For the other nodes, which it
// returns, it starts to make the checksums.
func (s *staging) announceFiles(nodes []*host) (remote []*host) {
	s.steps = make(map[*host]trace.Step, len(nodes))
	for _, n := range nodes {
		s.incomplete[n] = true
		s.steps[n] = s.env.Trace.Begin(trace.Row{Host: n.def.Name}, trace.Stage)
		if n.def.Local {
			n.Send(&wire.StageFiles{Files: s.req.StagedFiles, InPlace: true})
			continue
		}
		s.unanswered[n] = true
		remote = append(remote, n)
	}
	if len(remote) > 0 {
		s.resumeLimit = s.pauseStartLimit()
		inbox, sender := s.env.Inbox, s.sender
		go func() { inbox.Put(sender.checksumAll()) }()
	}
	return remote
}

// handle handles an event while files are staged.
func (s *staging) handle(event any, remote []*host) {
	switch e := event.(type) {
	case message:
		if s.incomplete[e.from] && s.handleMessage(e.from, e.m) {
			return
		}
	case checksumsDone:
		if s.err = e.err; s.err == nil {
			s.resumeLimit()
			s.beginNextStep()
			for _, n := range remote {
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

// handleMessage handles a message about staging. It returns false for any other message.
func (s *staging) handleMessage(n *host, m wire.Message) bool {
	switch m := m.(type) {
	case *wire.MissingFiles: // comes once from each node
		s.beginNextStep()
		s.sender.addReceiver(n, m.Files)
		if delete(s.unanswered, n); len(s.unanswered) == 0 {
			inbox, sender := s.env.Inbox, s.sender
			go func() { inbox.Put(sendDone{sender.sendAll()}) }()
		}
	case *wire.FileCredit:
		s.sender.addCredit(n, m.Bytes)
		if s.req.TimeLimits.Start == 0 {
			s.limit.CountTaken(m.Bytes)
		}
	case *wire.StageResult: // comes once from each node
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

// finalError returns why the files were not staged, or nil if they were.
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

// timeoutError returns the error of a staging that took too long. It names the nodes that have used up
// their credit, since the others wait for these. If there are none, it names all nodes that are not ready.
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

// showProgress shows on a terminal how much has been sent, if staging takes long. If there is no terminal
// it does nothing.
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

// checksumAll makes the checksums of all files.
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

// unreadableError returns the error for a file that cannot be read on this machine.
func unreadableError(p job.StagedFile, err error) *usererr.Error {
	return &usererr.Error{Text: fmt.Sprintf("--stage %s: %v", p.Path, err), Code: job.ExitInternal}
}

// addReceiver adds a node with the files that it misses.
func (p *fileSender) addReceiver(n *host, wanted []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.receivers[n] = &receiver{wanted, wire.StageWindow}
}

// addCredit adds to a node's credit, in bytes.
func (p *fileSender) addCredit(n *host, bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.receivers[n]; l != nil {
		l.credit = min(l.credit+bytes, wire.StageWindow)
	}
	p.changed.Signal()
}

// hasNoCredit reports whether a node's credit is too small for another chunk.
func (p *fileSender) hasNoCredit(n *host) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.receivers[n]
	return l != nil && l.credit < wire.FileChunkSize
}

// stop ends the sending.
func (p *fileSender) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.changed.Signal()
}

// sendAll sends one file after the other.
func (p *fileSender) sendAll() error {
	for i := range p.files {
		if err := p.sendFile(i); err != nil {
			return unreadableError(p.files[i], err)
		}
	}
	return nil
}

// sendFile sends one file to all nodes that miss it.
func (p *fileSender) sendFile(i int) error {
	to := p.receiversOf(i)
	buf := make([]byte, wire.FileChunkSize)
	for at, size := int64(0), p.files[i].Size; len(to) > 0 && at < size; {
		chunk := buf[:min(size-at, wire.FileChunkSize)]
		if !p.waitForCredit(to, len(chunk)) {
			return nil
		}
		if n, err := p.contents[i].ReadAt(chunk, at); n < len(chunk) {
			if err == io.EOF {
				err = fmt.Errorf("it became shorter while it was sent")
			}
			return err
		}
		m := wire.FileChunk{File: i, Bytes: chunk}
		frame := m.FrameFor(len(to))
		for _, n := range to {
			n.SendPiece(len(chunk), frame)
		}
		at += int64(len(chunk))
	}
	return nil
}

// receiversOf returns the nodes that miss a file, sorted by name.
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

// waitForCredit waits until all nodes have credit for so many bytes, and takes it from them. It returns
// false if sending was stopped.
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
