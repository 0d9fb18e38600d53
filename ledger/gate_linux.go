package ledger

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

/*
A Gate is held while a request is decided upon, so that nobody decides at the same time. It
is no lock but a slip, an entry of our own, as only we can lock it (TRUST-17):

	show ours, then look for those of others
	     shown before ours       wait until it is gone
	     shown in the same tick  the second by name shows itself anew, and looks again; the
	                             first waits for that, or until the other is gone, as it
	                             may have been in before we came
	     shown after             it waits for us

When it was shown is the kernel's word: the time of the last change of the inode, which
nobody can set back. For one user we wait no longer than TurnWait, whatever he shows. Who has
been waited for in vain is noted on our shelf, and not waited for again for a while: so
nobody can cost us that time at every start.
*/
type Gate struct {
	// Warning is a *BlockedError if we went on without the gate.
	Warning error

	slip *ownFile // nil: there is none
}

// Gate shuts the gate behind us: it waits until nobody else has it, but for no longer than
// GateWait. It fails only if ctx ends.
func (d *Dir) Gate(ctx context.Context) (*Gate, error) {
	name := kindGate + random()
	s, err := d.blank()
	if err == nil {
		err = s.present(name, append(opening(name), '}'))
	}
	if err != nil {
		return &Gate{Warning: &BlockedError{"", err}}, ctx.Err()
	}
	g := &Gate{slip: s}
	for err = errTied; err == errTied; {
		var ahead []entry
		var mine int64
		if ahead, mine, err = d.gatesBefore(ctx, s); err == nil {
			g.Warning, err = d.outlast(ctx, ahead, mine)
		}
	}
	if err != nil {
		s.drop()
		return nil, err
	}
	return g, nil
}

// Open lets the next one in. It may be called again.
func (g *Gate) Open() {
	if g.slip != nil {
		g.slip.drop()
	}
}

// errTied: one that we waited for has shown itself anew in the very tick in which we did.
var errTied = errors.New("shown at the same time")

// gatesBefore are the slips for which we wait, the first one first, and when ours was shown.
func (d *Dir) gatesBefore(ctx context.Context, s *ownFile) (ahead []entry, mine int64, err error) {
	for {
		if mine, err = s.shown(); err != nil {
			return nil, 0, err
		}
		second := false // of two that came at once
		ahead = ahead[:0]
		l := d.look(nil)
		err = l.read(kindGate, func(other entry) {
			if other.file != s.file && other.since <= mine {
				second = second || other.since == mine && other.path() < s.path()
				ahead = append(ahead, other)
			}
		})
		l.sweep(time.Now())
		if err != nil || !second {
			slices.SortFunc(ahead, func(x, y entry) int { return cmp.Compare(x.since, y.since) })
			return ahead, mine, ctx.Err() // where nothing can be read, nobody is ahead
		}
		if err := cmp.Or(sleep(ctx, time.Millisecond), s.renew()); err != nil {
			return nil, 0, err
		}
	}
}

// outlast waits for all that are ahead to go.
func (d *Dir) outlast(ctx context.Context, ahead []entry, mine int64) (warning, err error) {
	if len(ahead) == 0 {
		return nil, nil
	}
	now := time.Now()
	vain, late, end := d.recall().vain(now), make(map[int]time.Time), now.Add(d.GateWait)
	for _, r := range ahead {
		if _, known := late[r.uid]; !known {
			late[r.uid] = time.Now().Add(d.TurnWait)
		}
		until := late[r.uid]
		switch {
		case vain[r.uid]:
			until = now
		case end.Before(until):
			until = end
		}
		gone, err := d.awaitGate(ctx, r, mine, until)
		if err != nil {
			return nil, err
		}
		if !gone && warning == nil {
			warning = &BlockedError{d.userName(r.uid), errHeld}
			d.remember(func(n *notes) { n.noteVain(r.uid, time.Now()) })
		}
	}
	return warning, nil
}

// awaitGate waits for one to go, or to show itself anew: then it has looked again, and has
// seen us.
func (d *Dir) awaitGate(ctx context.Context, s entry, mine int64, until time.Time) (gone bool, err error) {
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 20*time.Millisecond) {
		now, lives := d.find(s)
		if !lives || now.since > mine {
			return true, nil
		}
		if now.since == mine && s.since < mine {
			return false, errTied
		}
		left := time.Until(until)
		if left <= 0 {
			return false, nil
		}
		if err := sleep(ctx, min(pause, left)); err != nil {
			return false, err
		}
	}
}
