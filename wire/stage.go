package wire

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"

	"remshell/job"
)

/*
Before the first Start on a node it gets the files that the ranks need (--stage):

	mpiexec                                      helper
	   | Stage ----------------------------------------->  names, sizes, hashes
	   | <---------------------------------------- Wanted  those that the node does not have
	   | Piece, Piece, ... ----------------------------->  of one after the other, in order
	   | <----------------------------------------- Took   so many bytes more may come
	   | <---------------------------------------- Staged  all are there, or why they are not

A sender may have StageWindow bytes under way, counted as they are before deflating. A piece
is encoded once for all nodes that want it. An empty Took says that a helper is at work.
*/

// Stage names files. With Here they are in their places already: the node is the
// launching machine.
type Stage struct {
	Parcels []job.Parcel
	Sums    []string // SHA-256 of each; none with Here
	Here    bool
}

func (m *Stage) fields(c *codec) {
	list(c, &m.Parcels, length{"parcels", job.MaxParcels}, (*codec).parcel)
	c.texts(&m.Sums, length{"sums", job.MaxParcels}, length{"sum", 64})
	c.flag(&m.Here)
}

// Wanted answers Stage: the numbers of parcels that the node does not have, ascending.
type Wanted struct{ Parcels []int }

func (m *Wanted) fields(c *codec) { c.nums(&m.Parcels, length{"parcels", job.MaxParcels}, aParcel) }

// Piece is what comes next of a parcel; at most PieceSize bytes, PieceSize but for the
// last. Size is its length before it was deflated; 0: it was not.
type Piece struct {
	Parcel int
	Size   int
	Bytes  []byte
}

func (m *Piece) fields(c *codec) {
	c.num(&m.Parcel, aParcel)
	c.num(&m.Size, valueRange{"bytes", 0, PieceSize})
	c.bytes(&m.Bytes, length{"piece", PieceSize})
}

// Took gives leave for so many bytes more.
type Took struct{ Bytes int }

func (m *Took) fields(c *codec) { c.num(&m.Bytes, valueRange{"bytes", 0, StageWindow}) }

// Staged ends the answer to Stage. With a Reason the files are not there, and Code is
// that of Refused.
type Staged struct {
	Code         int
	Reason, Hint string
}

func (m *Staged) fields(c *codec) {
	c.num(&m.Code, aCode)
	c.sentence(&m.Reason, "reason")
	c.sentence(&m.Hint, "hint")
}

// PieceSize and StageWindow are in bytes. The window is as large as that of an SSH channel:
// less would make a long link slow, and more would only wait there.
const (
	PieceSize   = 256 << 10
	StageWindow = 2 << 20
)

var (
	aFileName = length{"name", 255}
	aParcel   = valueRange{"parcel", 0, job.MaxParcels - 1}
)

func (c *codec) parcel(p *job.Parcel) {
	c.text(&p.Name, aFileName)
	c.text(&p.Path, aPath)
	c.num64(&p.Size, aMemory)
	c.num(&p.Mode, valueRange{"mode", 0, 0o700})
}

// pieceNodes is from how many nodes on a piece is deflated: what that costs here, once, is
// then less than what is saved in encrypting and on a link of 1 Gbit/s.
const pieceNodes = 3

// FrameFor encodes a piece, to be sent to so many nodes; deflated if that pays.
func (m *Piece) FrameFor(nodes int) Frame {
	if nodes >= pieceNodes && len(m.Bytes) >= deflateProbe/16 {
		probe := m.Bytes[:min(len(m.Bytes), deflateProbe/4)]
		if shrinks(len(probe), len(deflate(probe))) {
			if deflated := deflate(m.Bytes); shrinks(len(m.Bytes), len(deflated)) {
				return Encode(&Piece{m.Parcel, len(m.Bytes), deflated})
			}
		}
	}
	return Encode(m)
}

// Inflate makes Bytes what they were.
func (m *Piece) Inflate() error {
	if m.Size == 0 {
		return nil
	}
	if m.Size < 0 || m.Size > PieceSize {
		return fmt.Errorf("a piece of %d bytes", m.Size)
	}
	buf := make([]byte, m.Size+1) // one more, to see the end
	n, err := io.ReadFull(flate.NewReader(bytes.NewReader(m.Bytes)), buf)
	if n != m.Size || err != io.ErrUnexpectedEOF {
		return fmt.Errorf("a packed piece of %d bytes instead of %d: %v", n, m.Size, err)
	}
	m.Bytes, m.Size = buf[:n:n], 0
	return nil
}
