package stage

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"remshell/job"
	"remshell/launch/node"
	"remshell/usererr"
)

// A sender sends files to nodes. It reads a chunk, encodes it once, and sends it to all nodes that do not have the
// file, as soon as all these nodes have credit. Credit is the number of bytes that a node allows to be sent. Because
// all nodes get a chunk at the same time, mpiexec never holds more data in memory than the largest credit, however
// many nodes there are.
type sender struct {
	files    []job.StagedFile
	contents []Content

	mu        sync.Mutex // guards the rest
	receiving map[*node.Node]*recipient
	ended     bool
	changed   sync.Cond
	bytesSent int64 // counted once, however many nodes a chunk goes to
}

// A recipient is the state of sending to one node.
type recipient struct {
	missing []int // indices of the files that it misses, ascending
	credit  int
}

func newSender(files []job.StagedFile, contents []Content) *sender {
	p := &sender{files: files, contents: contents, receiving: make(map[*node.Node]*recipient)}
	p.changed.L = &p.mu
	return p
}

// checksumAll returns the SHA-256 checksums of all files.
func (p *sender) checksumAll() (sums []string, err error) {
	for i, c := range p.contents {
		sum, err := c.Checksum()
		if err != nil {
			return nil, unreadableError(p.files[i], err)
		}
		sums = append(sums, sum)
	}
	return sums, nil
}

// unreadableError returns the error for a file that cannot be read on this machine.
func unreadableError(p job.StagedFile, err error) *usererr.Error {
	return &usererr.Error{Text: fmt.Sprintf("--stage %s: %v", p.Path, err), Code: job.ExitInternal}
}

// addReceiver adds a node and the indices of the files that the node does not have.
func (p *sender) addReceiver(n *node.Node, missing []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.receiving[n] = &recipient{missing, window}
}

// addCredit increases the number of bytes that may be sent to a node.
func (p *sender) addCredit(n *node.Node, bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.receiving[n]; l != nil {
		l.credit = min(l.credit+bytes, window)
	}
	p.changed.Signal()
}

// hasNoCredit reports whether a node's credit is too small for another chunk.
func (p *sender) hasNoCredit(n *node.Node) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.receiving[n]
	return l != nil && l.credit < chunkSize
}

// countSent returns how many bytes of files were sent. A byte sent to several nodes counts once.
func (p *sender) countSent() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytesSent
}

// stop makes sendAll return.
func (p *sender) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.changed.Signal()
}

// sendAll sends all files, one after the other.
func (p *sender) sendAll() error {
	for i := range p.files {
		if err := p.sendFile(i); err != nil {
			return unreadableError(p.files[i], err)
		}
	}
	return nil
}

// sendFile sends one file to all nodes that do not have it.
func (p *sender) sendFile(i int) error {
	to := p.recipientsOf(i)
	buf := make([]byte, chunkSize)
	for at, size := int64(0), p.files[i].Size; len(to) > 0 && at < size; {
		chunk := buf[:min(size-at, chunkSize)]
		if !p.waitForCredit(to, len(chunk)) {
			return nil
		}
		if n, err := p.contents[i].ReadAt(chunk, at); n < len(chunk) {
			if err == io.EOF {
				err = fmt.Errorf("the file became shorter while mpiexec sent it")
			}
			return err
		}
		m := FileChunk{File: i, Bytes: chunk}
		frame := m.frameFor(len(to))
		for _, n := range to {
			n.SendFrameOf(&m, frame)
		}
		at += int64(len(chunk))
	}
	return nil
}

// recipientsOf returns the nodes that do not have a file, sorted by name.
func (p *sender) recipientsOf(i int) (recipients []*node.Node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n, l := range p.receiving {
		if slices.Contains(l.missing, i) {
			recipients = append(recipients, n)
		}
	}
	slices.SortFunc(recipients, func(x, y *node.Node) int { return strings.Compare(x.Name(), y.Name()) })
	return recipients
}

// waitForCredit waits until all recipients have credit for the given number of bytes, and subtracts the
// number from their credit. It returns false if sending was stopped.
func (p *sender) waitForCredit(recipients []*node.Node, bytes int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for slices.ContainsFunc(recipients, func(n *node.Node) bool { return p.receiving[n].credit < bytes }) && !p.ended {
		p.changed.Wait()
	}
	for _, n := range recipients {
		p.receiving[n].credit -= bytes
	}
	p.bytesSent += int64(bytes)
	return !p.ended
}
