package wire

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"

	"remshell/job"
)

/*
Files that ranks need (--stage) are sent to a node before its first Start:

	mpiexec                                      helper
	   | StageFiles ------------------------------------>  names, sizes, hashes
	   | <---------------------------------- MissingFiles  files that the node does not have
	   | FileChunk, FileChunk, ... --------------------->  file after file, in order
	   | <----------------------------------- FileCredit   allows more bytes
	   | <----------------------------------- StageResult  success, or the error

A sender may have StageWindow bytes in transit, counted before deflating. A chunk
is encoded once for all nodes that need it. An empty FileCredit shows that the helper is still at work.
*/

// StageFiles lists the files to stage. If InPlace is set, the node is the launching machine, and the files are
// used where they are.
type StageFiles struct {
	Files   []job.StagedFile
	Sums    []string // SHA-256 of each file; empty if InPlace is set
	InPlace bool
}

func (m *StageFiles) Fields(c *Codec) {
	List(c, &m.Files, Length{"files", job.MaxStagedFiles}, (*Codec).stagedFile)
	c.Texts(&m.Sums, Length{"sums", job.MaxStagedFiles}, Length{"sum", 64})
	c.Bool(&m.InPlace)
}

// MissingFiles answers StageFiles with the indices of the files that the node does not have, ascending.
type MissingFiles struct{ Files []int }

func (m *MissingFiles) Fields(c *Codec) {
	c.Nums(&m.Files, Length{"files", job.MaxStagedFiles}, stagedFileRange)
}

// FileChunk is the next chunk of a file: FileChunkSize bytes, or fewer if it is the
// last one. Size is its length before deflating; 0: it is not deflated.
type FileChunk struct {
	File  int
	Size  int
	Bytes []byte
}

func (m *FileChunk) Fields(c *Codec) {
	c.Num(&m.File, stagedFileRange)
	c.Num(&m.Size, Range{"bytes", 0, FileChunkSize})
	c.Bytes(&m.Bytes, Length{"piece", FileChunkSize})
}

// FileCredit allows mpiexec to send Bytes more bytes.
type FileCredit struct{ Bytes int }

func (m *FileCredit) Fields(c *Codec) { c.Num(&m.Bytes, Range{"bytes", 0, StageWindow}) }

// StageResult is the last answer to StageFiles. If Reason is set, staging failed, and Code is an exit code as
// in Refused.
type StageResult struct {
	Code         int
	Reason, Hint string
}

func (m *StageResult) Fields(c *Codec) {
	c.Num(&m.Code, codeRange)
	c.Sentence(&m.Reason, "reason")
	c.Sentence(&m.Hint, "hint")
}

// FileChunkSize and StageWindow are in bytes. The window is that of an SSH channel: a smaller
// one would slow down links of high latency, and a larger one would only fill buffers.
const (
	FileChunkSize = 256 << 10
	StageWindow   = 2 << 20
)

var (
	fileNameLength  = Length{"name", 255}
	stagedFileRange = Range{"file", 0, job.MaxStagedFiles - 1}
)

func (c *Codec) stagedFile(p *job.StagedFile) {
	c.Text(&p.Name, fileNameLength)
	c.Text(&p.Path, pathLength)
	c.Num64(&p.Size, BytesRange)
	c.Num(&p.Mode, Range{"mode", 0, 0o700})
}

// deflateChunkNodes is the smallest number of nodes for which a chunk is deflated. From there on, deflating once costs
// less time than encryption and a link of 1 Gbit/s save.
const deflateChunkNodes = 3

// FrameFor encodes m for sending to the given number of nodes. It deflates the chunk if that saves time.
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

// Inflate restores Bytes of a deflated chunk, and sets Size to 0.
func (m *FileChunk) Inflate() error {
	if m.Size == 0 {
		return nil
	}
	if m.Size < 0 || m.Size > FileChunkSize {
		return fmt.Errorf("a chunk of %d bytes", m.Size)
	}
	buf := make([]byte, m.Size+1) // one byte more, to detect a chunk that is too long
	n, err := io.ReadFull(flate.NewReader(bytes.NewReader(m.Bytes)), buf)
	if n != m.Size || err != io.ErrUnexpectedEOF {
		return fmt.Errorf("a deflated chunk of %d bytes instead of %d: %v", n, m.Size, err)
	}
	m.Bytes, m.Size = buf[:n:n], 0
	return nil
}
