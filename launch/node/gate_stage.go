package node

import (
	"remshell/job"
	"remshell/wire"
)

// A cargoHold is what a node may say of the parcels it was told of.
type cargoHold struct {
	parcels int  // how many there are
	here    bool // they are in their places, and none may be wanted
	wanted  bool // it has said which it wants
	over    bool // and that all are there, or why not
	sent    int  // bytes of them without leave for more
}

// tellPiece notes that a piece of a parcel goes to the node.
func (g *gate) tellPiece(bytes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cargo != nil {
		g.cargo.sent += bytes
	}
}

// wanted hears which parcels a node wants, of those that it was asked for.
func (g *gate) wanted(m *wire.Wanted) error {
	c := g.cargo
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
func (g *gate) took(m *wire.Took) (wire.Message, error) {
	c := g.cargo
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
func (g *gate) staged(m *wire.Staged) error {
	c := g.cargo
	if c == nil || c.over || m.Reason == "" && !c.here && !c.wanted {
		return errUnasked
	}
	c.over = true
	m.Code = job.StartCode(m.Code)
	return nil
}
