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
	   | StageFiles ------------------------------------>  names, sizes, hashes
	   | <---------------------------------- MissingFiles  those that the node does not have
	   | FileChunk, FileChunk, ... --------------------->  of one after the other, in order
	   | <----------------------------------- FileCredit   so many bytes more may come
	   | <----------------------------------- StageResult  all are there, or why they are not

A sender may have StageWindow bytes under way, counted as they are before deflating. A piece
is encoded once for all nodes that want it. An empty Took says that a helper is at work.
*/

// StageFiles names files. With Here they are in their places already: the node is the
// launching machine.
type StageFiles struct {
	Files   []job.StagedFile
	Sums    []string // SHA-256 of each; none with Here
	InPlace bool
}

func (m *StageFiles) fields(c *codec) {
	list(c, &m.Files, length{"parcels", job.MaxStagedFiles}, (*codec).stagedFile)
	c.texts(&m.Sums, length{"sums", job.MaxStagedFiles}, length{"sum", 64})
	c.boolean(&m.InPlace)
}

// MissingFiles answers Stage: the numbers of parcels that the node does not have, ascending.
type MissingFiles struct{ Files []int }

func (m *MissingFiles) fields(c *codec) {
	c.nums(&m.Files, length{"parcels", job.MaxStagedFiles}, stagedFileRange)
}

// FileChunk is what comes next of a parcel; at most PieceSize bytes, PieceSize but for the
// last. Size is its length before it was deflated; 0: it was not.
type FileChunk struct {
	File  int
	Size  int
	Bytes []byte
}

func (m *FileChunk) fields(c *codec) {
	c.num(&m.File, stagedFileRange)
	c.num(&m.Size, valueRange{"bytes", 0, FileChunkSize})
	c.bytes(&m.Bytes, length{"piece", FileChunkSize})
}

// FileCredit gives leave for so many bytes more.
type FileCredit struct{ Bytes int }

func (m *FileCredit) fields(c *codec) { c.num(&m.Bytes, valueRange{"bytes", 0, StageWindow}) }

// StageResult ends the answer to Stage. With a Reason the files are not there, and Code is
// that of Refused.
type StageResult struct {
	Code         int
	Reason, Hint string
}

func (m *StageResult) fields(c *codec) {
	c.num(&m.Code, codeRange)
	c.sentence(&m.Reason, "reason")
	c.sentence(&m.Hint, "hint")
}

// FileChunkSize and StageWindow are in bytes. The window is as large as that of an SSH channel:
// less would make a long link slow, and more would only wait there.
const (
	FileChunkSize = 256 << 10
	StageWindow   = 2 << 20
)

var (
	fileNameLength  = length{"name", 255}
	stagedFileRange = valueRange{"parcel", 0, job.MaxStagedFiles - 1}
)

func (c *codec) stagedFile(p *job.StagedFile) {
	c.text(&p.Name, fileNameLength)
	c.text(&p.Path, pathLength)
	c.num64(&p.Size, bytesRange)
	c.num(&p.Mode, valueRange{"mode", 0, 0o700})
}

// deflateChunkNodes is from how many nodes on a piece is deflated: what that costs here, once, is
// then less than what is saved in encrypting and on a link of 1 Gbit/s.
const deflateChunkNodes = 3

// FrameFor encodes a piece, to be sent to so many nodes; deflated if that pays.
func (m *FileChunk) FrameFor(nodes int) Frame {
	if nodes >= deflateChunkNodes && len(m.Bytes) >= deflateSample/16 {
		probe := m.Bytes[:min(len(m.Bytes), deflateSample/4)]
		if worthDeflating(len(probe), len(deflate(probe))) {
			if deflated := deflate(m.Bytes); worthDeflating(len(m.Bytes), len(deflated)) {
				return Encode(&FileChunk{m.File, len(m.Bytes), deflated})
			}
		}
	}
	return Encode(m)
}

// Inflate makes Bytes what they were.
func (m *FileChunk) Inflate() error {
	if m.Size == 0 {
		return nil
	}
	if m.Size < 0 || m.Size > FileChunkSize {
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
