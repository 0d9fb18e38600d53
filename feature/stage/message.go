package stage

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"

	"remshell/job"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/wire"
)

// StageFiles lists the files to stage. If InPlace is set, the node is the launching machine, and the files are
// used where they are.
type StageFiles struct {
	Files   []job.StagedFile
	Sums    []string // SHA-256 of each file; empty if InPlace is set
	InPlace bool
}

// Fields implements wire.Message: it lists the fields that are sent.
func (m *StageFiles) Fields(c *wire.Codec) {
	wire.List(c, &m.Files, wire.Length{Name: "files", Max: job.MaxStagedFiles}, func(c *wire.Codec, p *job.StagedFile) {
		c.Text(&p.Name, wire.Length{Name: "name", Max: 255})
		c.Text(&p.Path, wire.Length{Name: "path", Max: 64 << 10})
		c.Num64(&p.Size, wire.BytesRange)
		c.Num(&p.Mode, wire.Range{Name: "mode", Low: 0, High: 0o700})
	})
	c.Texts(&m.Sums, wire.Length{Name: "sums", Max: job.MaxStagedFiles}, wire.Length{Name: "sum", Max: 64})
	c.Bool(&m.InPlace)
}

// MissingFiles is the reply to StageFiles. Files contains the indices of the files that the node does not have, in
// ascending order.
type MissingFiles struct{ Files []int }

// Fields implements wire.Message: it lists the fields that are sent.
func (m *MissingFiles) Fields(c *wire.Codec) {
	c.Nums(&m.Files, wire.Length{Name: "files", Max: job.MaxStagedFiles}, fileRange)
}

// FileChunk is the next chunk of a file: chunkSize bytes, or fewer if it is the last one. Size is the length
// of the chunk before compression, in bytes, or 0 if the chunk is not compressed.
type FileChunk struct {
	File  int
	Size  int
	Bytes []byte
}

// Fields implements wire.Message: it lists the fields that are sent.
func (m *FileChunk) Fields(c *wire.Codec) {
	c.Num(&m.File, fileRange)
	c.Num(&m.Size, wire.Range{Name: "bytes", Low: 0, High: chunkSize})
	c.Bytes(&m.Bytes, wire.Length{Name: "piece", Max: chunkSize})
}

// FileCredit allows mpiexec to send the given number of bytes in addition to those allowed before.
type FileCredit struct{ Bytes int }

// Fields implements wire.Message: it lists the fields that are sent.
func (m *FileCredit) Fields(c *wire.Codec) {
	c.Num(&m.Bytes, wire.Range{Name: "bytes", Low: 0, High: window})
}

// StageResult is the last reply to StageFiles. If Reason is not empty, it says why staging has failed, and
// Code is the exit code for mpiexec, as in wire.Refused.
type StageResult struct {
	Code         int
	Reason, Hint string
}

// Fields implements wire.Message: it lists the fields that are sent.
func (m *StageResult) Fields(c *wire.Codec) {
	c.Num(&m.Code, wire.Range{Name: "code", Low: 0, High: 255})
	c.Sentence(&m.Reason, "reason")
	c.Sentence(&m.Hint, "hint")
}

// chunkSize is the size of a chunk, and window the number of bytes that may be in transit to a node. The window is as
// large as that of an SSH channel. A smaller window would slow down links of high latency, and a larger window would
// only fill buffers.
const (
	chunkSize = 256 << 10
	window    = 2 << 20
)

var fileRange = wire.Range{Name: "file", Low: 0, High: job.MaxStagedFiles - 1}

// deflateNodes is the smallest number of receiving nodes for which a chunk is compressed. With that many nodes,
// compressing a chunk once takes less time than encrypting the additional bytes for each node and sending them over a
// link of 1 Gbit/s.
const deflateNodes = 3

// A chunk is compressed only if it has at least deflateFrom bytes, and if its first deflateSample bytes become much
// smaller.
const (
	deflateFrom   = 4 << 10
	deflateSample = 16 << 10
)

// frameFor encodes m for sending to the given number of nodes. It compresses the chunk if that saves time.
func (m *FileChunk) frameFor(nodes int) wire.Frame {
	if nodes >= deflateNodes && len(m.Bytes) >= deflateFrom {
		if deflated, saves := wire.Deflate(m.Bytes, deflateSample); saves {
			return wire.Encode(&FileChunk{m.File, len(m.Bytes), deflated})
		}
	}
	return wire.Encode(m)
}

// inflate decompresses Bytes of a compressed chunk, and sets Size to 0.
func (m *FileChunk) inflate() error {
	if m.Size == 0 {
		return nil
	}
	if m.Size < 0 || m.Size > chunkSize {
		return fmt.Errorf("a part of a file has the impossible size of %d bytes", m.Size)
	}
	buf := make([]byte, m.Size+1) // one byte more, to detect a chunk that is too long
	n, err := io.ReadFull(flate.NewReader(bytes.NewReader(m.Bytes)), buf)
	if n != m.Size || err != io.ErrUnexpectedEOF {
		return fmt.Errorf("a compressed part of a file has %d bytes instead of %d: %v", n, m.Size, err)
	}
	m.Bytes, m.Size = buf[:n:n], 0
	return nil
}

func init() {
	wire.Register[StageFiles](70, wire.Row{Sender: wire.Launcher, Phase: wire.Staging, MaxBody: 8 << 20, Example: func(int) wire.Message {
		return &StageFiles{Files: []job.StagedFile{{Name: "f", Path: "/f", Size: 1, Mode: 0o500}}, Sums: []string{"0"}}
	}})
	wire.Register[MissingFiles](71, wire.Row{Sender: wire.Helper, Phase: wire.Staging, MaxBody: 16 << 10, Example: func(int) wire.Message {
		return &MissingFiles{Files: []int{0}}
	}})
	wire.Register[FileChunk](72, wire.Row{Sender: wire.Launcher, Phase: wire.Staging, MaxBody: chunkSize + 64, Example: func(int) wire.Message {
		return &FileChunk{Bytes: []byte("x")}
	}})
	wire.Register[FileCredit](73, wire.Row{Sender: wire.Helper, Phase: wire.Staging, MaxBody: 16, Example: func(int) wire.Message {
		return &FileCredit{}
	}})
	wire.Register[StageResult](74, wire.Row{Sender: wire.Helper, Phase: wire.Staging, MaxBody: 16 << 10, Example: func(int) wire.Message {
		return &StageResult{Code: job.ExitInternal, Reason: "full", Hint: "h"}
	}})

	node.OnSend(func(v *node.Validator, m *StageFiles) {
		*node.StateOf[progress](v) = progress{announced: true, files: len(m.Files), inPlace: m.InPlace}
	})
	node.OnSend(func(v *node.Validator, m *FileChunk) { node.StateOf[progress](v).sent += len(m.Bytes) })
	node.AdmitIf(func(v *node.Validator, m *MissingFiles) error { return node.StateOf[progress](v).checkMissing(m) })
	node.AdmitIf(func(v *node.Validator, m *FileCredit) error { return node.StateOf[progress](v).checkCredit(m) })
	node.AdmitIf(func(v *node.Validator, m *StageResult) error { return node.StateOf[progress](v).checkResult(m) })

	reserve.Own[*MissingFiles]()
	reserve.Own[*FileCredit]()
	reserve.Own[*StageResult]()
}
