package node

import (
	"remshell/job"
	"remshell/wire"
)

// A cargoHold is what a node may say of the parcels it was told of; nil: there are none.
type cargoHold struct {
	parcels int  // how many there are
	here    bool // they are in their places, and none may be wanted
	wanted  bool // it has said which it wants
	over    bool // and that all are there, or why not
	sent    int  // bytes of them without leave for more
}

// tellPiece notes that a piece of a parcel goes to the node.
func (v *validator) tellPiece(bytes int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.cargo != nil {
		v.cargo.sent += bytes
	}
}

// mayWant hears which parcels a node wants, of those that it was asked for.
func (c *cargoHold) mayWant(m *wire.Wanted) error {
	if c == nil || c.here || c.wanted || c.over {
		return errUnasked
	}
	c.wanted = true
	next := 0
	for _, i := range m.Parcels {
		if i < next || i >= c.parcels {
			return errValue(m, "Parcels", i)
		}
		next = i + 1
	}
	return nil
}

// took hears that a node has taken what came.
func (c *cargoHold) took(m *wire.Took) (wire.Message, error) {
	switch {
	case c == nil || c.here || c.over:
		return nil, errUnasked
	case m.Bytes < 0 || m.Bytes > c.sent:
		return nil, errValue(m, "Bytes", m.Bytes)
	}
	c.sent -= m.Bytes
	return m, nil
}

// staged hears that all parcels are there, or why not.
func (c *cargoHold) staged(m *wire.Staged) error {
	if c == nil || c.over || m.Reason == "" && !c.here && !c.wanted {
		return errUnasked
	}
	c.over = true
	m.Code = job.StartCode(m.Code)
	return nil
}
