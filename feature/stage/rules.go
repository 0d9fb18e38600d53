package stage

import (
	"remshell/job"
	"remshell/launch/node"
)

// A progress says which messages about staging a node has sent and received, so that unexpected messages can be
// refused. The zero value is for a job that stages no files.
type progress struct {
	announced bool // StageFiles was sent
	files     int  // how many there are
	inPlace   bool // they are in their places on this machine, and none may be requested
	wanted    bool // MissingFiles was received
	done      bool // StageResult was received
	sent      int  // bytes that were sent and not credited yet
}

// checkMissing checks the list of files that the node requests. The list must contain indices of announced files, in
// ascending order.
func (p *progress) checkMissing(m *MissingFiles) error {
	if !p.announced || p.inPlace || p.wanted || p.done {
		return node.ErrNotAsked
	}
	p.wanted = true
	next := 0
	for _, i := range m.Files {
		if i < next || i >= p.files {
			return node.InvalidValue(m, "Files", i)
		}
		next = i + 1
	}
	return nil
}

// checkCredit returns an error if the node grants credit although mpiexec is not sending files to it, or if the
// credit is for more bytes than mpiexec has sent.
func (p *progress) checkCredit(m *FileCredit) error {
	switch {
	case !p.announced || p.inPlace || p.done:
		return node.ErrNotAsked
	case m.Bytes < 0 || m.Bytes > p.sent:
		return node.InvalidValue(m, "Bytes", m.Bytes)
	}
	p.sent -= m.Bytes
	return nil
}

// checkResult returns an error if the node reports a result of staging that mpiexec does not expect.
func (p *progress) checkResult(m *StageResult) error {
	if !p.announced || p.done || m.Reason == "" && !p.inPlace && !p.wanted {
		return node.ErrNotAsked
	}
	p.done = true
	m.Code = job.StartFailureCode(m.Code)
	return nil
}
