package node

import (
	"remshell/job"
	"remshell/wire"
)

// A stagingState tracks the staging of files to a node. It is nil if there are none.
type stagingState struct {
	files   int  // how many there are
	inPlace bool // they are in their places on this machine, and none may be requested
	wanted  bool // MissingFiles was received
	done    bool // StageResult was received
	sent    int  // bytes that were sent and not credited yet
}

// noteChunkSent notes that a chunk of a staged file is sent to the node.
func (v *Validator) noteChunkSent(bytes int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.staging != nil {
		v.staging.sent += bytes
	}
}

// checkMissing checks the list of files that the node requests: indices of announced files, in ascending
// order.
func (c *stagingState) checkMissing(m *wire.MissingFiles) error {
	if c == nil || c.inPlace || c.wanted || c.done {
		return ErrNotAsked
	}
	c.wanted = true
	next := 0
	for _, i := range m.Files {
		if i < next || i >= c.files {
			return InvalidValue(m, "Files", i)
		}
		next = i + 1
	}
	return nil
}

// checkCredit checks that the node does not report more bytes taken than it was sent.
func (c *stagingState) checkCredit(m *wire.FileCredit) (wire.Message, error) {
	switch {
	case c == nil || c.inPlace || c.done:
		return nil, ErrNotAsked
	case m.Bytes < 0 || m.Bytes > c.sent:
		return nil, InvalidValue(m, "Bytes", m.Bytes)
	}
	c.sent -= m.Bytes
	return m, nil
}

// checkResult checks the report that all files are in place, or why not.
func (c *stagingState) checkResult(m *wire.StageResult) error {
	if c == nil || c.done || m.Reason == "" && !c.inPlace && !c.wanted {
		return ErrNotAsked
	}
	c.done = true
	m.Code = job.StartFailureCode(m.Code)
	return nil
}
