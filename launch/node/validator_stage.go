package node

import (
	"remshell/job"
	"remshell/wire"
)

// A stagingState is what a node may say of the parcels it was told of; nil: there are none.
type stagingState struct {
	parcels int  // how many there are
	inPlace bool // they are in their places, and none may be wanted
	wanted  bool // it has said which it wants
	done    bool // and that all are there, or why not
	sent    int  // bytes of them without leave for more
}

// noteChunkSent notes that a piece of a parcel goes to the node.
func (v *validator) noteChunkSent(bytes int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.staging != nil {
		v.staging.sent += bytes
	}
}

// checkMissing hears which parcels a node wants, of those that it was asked for.
func (c *stagingState) checkMissing(m *wire.MissingFiles) error {
	if c == nil || c.inPlace || c.wanted || c.done {
		return errNotAsked
	}
	c.wanted = true
	next := 0
	for _, i := range m.Files {
		if i < next || i >= c.parcels {
			return errValue(m, "Parcels", i)
		}
		next = i + 1
	}
	return nil
}

// checkCredit hears that a node has taken what came.
func (c *stagingState) checkCredit(m *wire.FileCredit) (wire.Message, error) {
	switch {
	case c == nil || c.inPlace || c.done:
		return nil, errNotAsked
	case m.Bytes < 0 || m.Bytes > c.sent:
		return nil, errValue(m, "Bytes", m.Bytes)
	}
	c.sent -= m.Bytes
	return m, nil
}

// checkResult hears that all parcels are there, or why not.
func (c *stagingState) checkResult(m *wire.StageResult) error {
	if c == nil || c.done || m.Reason == "" && !c.inPlace && !c.wanted {
		return errNotAsked
	}
	c.done = true
	m.Code = job.StartFailureCode(m.Code)
	return nil
}
