package stage

import (
	"errors"
	"fmt"
	"slices"

	"remshell/hostlist"
	"remshell/job"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/trace"
	"remshell/usererr"
	"remshell/wire"
)

func init() {
	reserve.Register(reserve.Feature{
		IsWanted: func(req job.Request) bool { return len(req.StagedFiles) > 0 },
		Prepare:  stageFiles,
	})
}

// A transfer is the state of sending the staged files of one plan to its nodes.
type transfer struct {
	*reserve.Preparation
	sender     *sender
	unanswered map[*node.Node]bool       // nodes that have not sent MissingFiles
	incomplete map[*node.Node]bool       // nodes that do not have all files
	steps      map[*node.Node]trace.Step // open trace steps of the nodes
	err        error                     // error on this machine
}

// stageFiles sends the staged files to the nodes, and waits until each node has reported the result. Each message
// from a node restarts the time limit. Each byte that the nodes receive extends the limit by the time that the byte
// takes at the rate deadline.MinRate.
func stageFiles(p *reserve.Preparation) (err error) {
	contents, has := wire.SettingOf[*Contents](p.Env.Settings)
	if !has || len(contents.Files) != len(p.Request.StagedFiles) {
		return errors.New("internal error: the files of --stage were not opened before the start")
	}
	s := &transfer{Preparation: p, sender: newSender(p.Request.StagedFiles, contents.Files),
		unanswered: make(map[*node.Node]bool), incomplete: make(map[*node.Node]bool), steps: make(map[*node.Node]trace.Step)}
	defer s.sender.stop()
	staging := p.Env.Trace.Begin(p.Env.TraceRow, trace.Stage)
	defer func() {
		staging.End(err)
		for _, step := range s.steps {
			step.End(err)
		}
	}()
	reserve.Handle(p, s.handleMissing)
	reserve.Handle(p, s.handleCredit)
	reserve.Handle(p, s.handleResult)
	s.announceFiles()
	if len(s.unanswered) > 0 {
		defer p.ShowProgress(s.progressLine(len(s.unanswered)))()
	}
	err = p.Wait(func() bool { return len(s.incomplete) == 0 || s.err != nil }, func(n *node.Node, err error) {
		s.nodeFailed(n, fmt.Errorf("mpiexec lost contact while it copied the files of --stage (%s)", usererr.Reason(err)))
	})
	switch {
	case s.err != nil:
		return s.err
	case errors.Is(err, reserve.ErrTooSlow):
		return s.timeoutError()
	case err == nil:
		s.logFiles()
	}
	return err
}

// announceFiles reports to the helpers on this machine that all files are in place. For the other nodes, it starts to
// compute the checksums. The time for the checksums depends on the size of the files, and is not part of the time
// limit.
func (s *transfer) announceFiles() {
	var remote []*node.Node
	for _, n := range s.Nodes {
		s.incomplete[n] = true
		s.steps[n] = s.Env.Trace.Begin(trace.Row{Host: n.Name()}, trace.Stage)
		if n.Def.Local {
			n.Send(&StageFiles{Files: s.Request.StagedFiles, InPlace: true})
			continue
		}
		s.unanswered[n] = true
		remote = append(remote, n)
	}
	if len(remote) == 0 {
		return
	}
	resumeLimit := s.PauseLimit()
	go func() {
		sums, err := s.sender.checksumAll()
		s.Post(func() {
			if s.err = err; err != nil {
				return
			}
			resumeLimit()
			s.RestartLimit()
			for _, n := range remote {
				n.Send(&StageFiles{Files: s.Request.StagedFiles, Sums: sums})
			}
		})
	}()
}

// handleMissing handles the list of files that a node does not have. Each node sends one list. When all nodes
// have sent their lists, handleMissing starts to send the files.
func (s *transfer) handleMissing(n *node.Node, m *MissingFiles) {
	s.RestartLimit()
	s.sender.addReceiver(n, m.Files)
	if delete(s.unanswered, n); len(s.unanswered) == 0 {
		go func() {
			err := s.sender.sendAll()
			s.Post(func() { s.err = err })
		}()
	}
}

// handleCredit handles a message in which a node allows mpiexec to send more bytes.
func (s *transfer) handleCredit(n *node.Node, m *FileCredit) {
	s.sender.addCredit(n, m.Bytes)
	s.ExtendForBytes(m.Bytes)
}

// handleResult handles a StageResult, which is the last message of a node about staging.
func (s *transfer) handleResult(n *node.Node, m *StageResult) {
	s.RestartLimit()
	delete(s.incomplete, n)
	if m.Reason == "" {
		s.steps[n].End(nil)
	} else {
		s.nodeFailed(n, &usererr.Error{Text: m.Reason, Remedy: m.Hint, Code: m.Code})
	}
}

func (s *transfer) nodeFailed(n *node.Node, err error) {
	s.steps[n].End(err)
	s.Fail(n, err)
}

// logFiles writes to the log that all files are staged.
func (s *transfer) logFiles() {
	var names []string
	for _, p := range s.Request.StagedFiles {
		names = append(names, p.Name)
	}
	s.Env.Log.Info().Strs("files", names).Int64("bytes sent", s.sender.countSent()).Msg("staged")
}

// timeoutError returns the error for staging that took too long. It names the nodes that have not allowed mpiexec to
// send more bytes, because all other nodes wait for them. If there are no such nodes, it names all nodes that are not
// ready.
func (s *transfer) timeoutError() *usererr.Error {
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
	return &usererr.Error{Text: fmt.Sprintf("%s: the files of --stage were not copied within %v", hostlist.Fold(names), reserve.StartTimeout(s.Request)),
		Remedy: "increase --start-timeout; -v shows which step takes so long", Code: job.ExitInternal}
}

// progressLine returns a function that formats a progress message: how much has been sent to the given number of
// nodes.
func (s *transfer) progressLine(nodes int) func() string {
	var all int64
	for _, p := range s.Request.StagedFiles {
		all += p.Size
	}
	return func() string {
		return fmt.Sprintf("copying the files of --stage: %d of %d MiB to %d hosts", s.sender.countSent()>>20, all>>20, nodes)
	}
}
