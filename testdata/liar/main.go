// Liar is a helper that lies. It starts the real one and passes on what that and mpiexec say
// to each other, frame by frame, until the moment for its lie has come:
//
//	mpiexec <--- frames --- liar <--- frames --- mpiexec --helper
//	                 ^-- forged ones
//
// It is called as "liar LIE MPIEXEC --helper BUILD", by a script that stands where the
// program is (path= of a host file).
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"

	"remshell/job"
	"remshell/pin"
	"remshell/pmiserver/spawn"
	"remshell/wire"
)

// A moment is when a lie is told.
type moment int

const (
	atNode     moment = iota // in the place of Node
	atPrepared               // in the place of Prepared
	atGo                     // when a rank has written "go"
	atEnd                    // when mpiexec has said End
)

// A lie is what is said, and when. group is that of the job.
type lie struct {
	when   moment
	say    func(group string) []wire.Frame
	answer func(*wire.Answer) []wire.Frame // what follows when mpiexec answers what the lie has asked; nil: it asks nothing
}

func frames(messages ...wire.Message) (all []wire.Frame) {
	for _, m := range messages {
		all = append(all, wire.Encode(m))
	}
	return all
}

// always is a lie that needs to know nothing.
func always(when moment, messages ...wire.Message) lie {
	return lie{when: when, say: func(string) []wire.Frame { return frames(messages...) }}
}

// raw is a frame that is none.
func raw(kind byte, size uint64, body ...byte) lie {
	frame := append(binary.AppendUvarint([]byte{kind}, size), body...)
	return lie{when: atGo, say: func(string) []wire.Frame { return []wire.Frame{frame} }}
}

// grouped is a lie with the name of the group.
func grouped(when moment, make func(group string) wire.Message) lie {
	return lie{when: when, say: func(group string) []wire.Frame { return frames(make(group)) }}
}

func exited(e job.Exit) wire.Message { return &wire.Exited{Exit: e} }

func node(cpu int) wire.Message {
	return &wire.Node{Probe: job.Probe{Hostname: "n2", Topology: pin.Topology{Cores: []pin.Core{{CPUs: []int{cpu}}}}}}
}

var out = []byte("forged\n")

var lies = map[string]lie{
	"exit of another":         always(atGo, exited(job.Exit{Rank: 0})),
	"output of another":       always(atGo, &wire.Data{Rank: 0, Stream: wire.Stdout, Bytes: out}),
	"errors of another":       always(atGo, &wire.Data{Rank: 0, Stream: wire.Stderr, Bytes: out}),
	"abort of another":        always(atGo, &wire.PMI{Rank: 0, Event: wire.PMIAborted}),
	"junk of another":         always(atGo, &wire.PMI{Rank: 0, Event: wire.PMIJunk, Text: "forged"}),
	"start of another":        always(atGo, &wire.Started{Rank: 0, PID: 1}),
	"failed start of another": always(atGo, &wire.Started{Rank: 0, Err: "forged", Code: 127}),
	"credit of another":       always(atGo, &wire.Credit{Rank: 0, Bytes: 1 << 20}),
	"end of another's input":  always(atGo, &wire.Data{Rank: 0, Stream: wire.Stdin}),
	"trace of another":        always(atGo, &wire.Trace{Rank: 0, Line: "forged"}),
	"states of another":       always(atGo, &wire.States{Ranks: []job.RankState{{Rank: 0, Life: "forged"}}}),
	"samples of another":      always(atGo, &wire.Sampled{Ranks: []job.RankSample{{Rank: 0}}}),
	"spawn for another": grouped(atGo, func(group string) wire.Message {
		return &wire.Spawn{ID: 1 << 20, Request: spawn.Request{Group: group, Rank: 0, Commands: []spawn.Command{{Argv: []string{"touch", "forged"}, Count: 1}}}}
	}),
	"rank that is none":       always(atGo, exited(job.Exit{Rank: 99})),
	"negative rank":           always(atGo, &wire.Data{Rank: -1, Stream: wire.Stdout, Bytes: out}),
	"rank beyond all tables":  always(atGo, &wire.Data{Rank: 1 << 40, Stream: wire.Stderr, Bytes: out}),
	"start told twice":        always(atGo, &wire.Started{Rank: 2, PID: 1}),
	"exit code 256":           always(atGo, exited(job.Exit{Rank: 2, Code: 256})),
	"exit code 2^32":          always(atGo, exited(job.Exit{Rank: 2, Code: 1 << 32})),
	"exit code -1":            always(atGo, exited(job.Exit{Rank: 2, Code: -1})),
	"signal 65":               always(atGo, exited(job.Exit{Rank: 2, Signal: 65})),
	"output behind its end":   always(atGo, &wire.Data{Rank: 2, Stream: wire.Stdout}, &wire.Data{Rank: 2, Stream: wire.Stdout, Bytes: out}),
	"stream 7":                always(atGo, &wire.Data{Rank: 2, Stream: 7, Bytes: out}),
	"fence out of turn":       grouped(atGo, func(group string) wire.Message { return &wire.Fence{ID: group + "/2"} }),
	"fence of another group":  always(atGo, &wire.Fence{ID: "other/0"}),
	"answer without question": always(atGo, &wire.Gated{Ahead: 1}),
	"second Prepared":         grouped(atGo, func(group string) wire.Message { return &wire.Prepared{Group: group, Meet: "192.0.2.1:1"} }),
	"second Refused":          grouped(atGo, func(group string) wire.Message { return &wire.Refused{Group: group} }),
	"drained too early":       always(atGo, &wire.Drained{}),
	"Prepare to mpiexec":      always(atGo, &wire.Prepare{}),
	"Signal to mpiexec":       always(atGo, &wire.Signal{Number: 9}),
	"frame too large":         raw(33, 32<<20),
	"unknown kind":            raw(77, 0),
	"frame that ends early":   raw(15, 1, 2),
	"bytes too many":          raw(51, 2, 0, 0),
	"request told twice":      always(atGo, &wire.Name{ID: 1 << 20, Op: wire.Lookup, Service: "x"}, &wire.Name{ID: 1 << 20, Op: wire.Lookup, Service: "x"}),
	"second greeting":         always(atGo, &wire.Hello{}),
	"meeting point":           grouped(atPrepared, func(group string) wire.Message { return &wire.Prepared{Group: group, Meet: "192.0.2.1:1"} }),
	"exit before the start":   always(atPrepared, exited(job.Exit{Rank: 2})),
	"output before the start": always(atPrepared, &wire.Data{Rank: 2, Stream: wire.Stdout, Bytes: out}),
	"CPU 2^40":                always(atNode, node(1<<40)),
	"CPU -1":                  always(atNode, node(-1)),
	"second Hello":            always(atNode, &wire.Hello{}),
	"exit at the end":         always(atEnd, exited(job.Exit{Rank: 0})),
	"identity":                {when: atNode}, // see up
	"root asks":               rootAsks(),
}

// asks is how often root is said to ask for a checkpoint, before it is said to end the job.
const asks = 40

// rootAsks is a lie that is told again as soon as mpiexec has answered it.
func rootAsks() lie {
	n := 0
	ask := func() []wire.Frame {
		n++
		verb := job.AskCheckpoint
		if n > asks {
			verb = job.AskEnd
		}
		return frames(&wire.Ask{ID: fmt.Sprint("forged", n), Right: job.Root, Ask: job.Ask{User: "root", Verb: verb}})
	}
	return lie{when: atGo, say: func(string) []wire.Frame { return ask() }, answer: func(m *wire.Answer) []wire.Frame {
		if m.State == job.AskTaken || n > asks {
			return nil
		}
		return ask()
	}}
}

func main() {
	if err := run(os.Args[1], exec.Command(os.Args[2], os.Args[3:]...)); err != nil {
		fmt.Fprintln(os.Stderr, "liar:", err)
		os.Exit(1)
	}
}

func run(name string, helper *exec.Cmd) error {
	lie, known := lies[name]
	if !known {
		return fmt.Errorf("there is no lie %q", name)
	}
	toHelper, err := helper.StdinPipe()
	if err != nil {
		return err
	}
	fromHelper, err := helper.StdoutPipe()
	if err != nil {
		return err
	}
	if err := helper.Start(); err != nil {
		return err
	}
	l := &liar{lie: lie}
	go func() {
		defer toHelper.Close()
		l.down(bufio.NewReader(os.Stdin), toHelper)
	}()
	l.up(bufio.NewReader(fromHelper))
	return helper.Wait()
}

// A liar is the two directions together.
type liar struct {
	lie lie

	mu    sync.Mutex // guards the rest, and stdout
	group string
	told  bool
}

// Numbers of frames that are looked at.
const (
	kindNode     = 2
	kindPrepare  = 3
	kindPrepared = 4
	kindData     = 8
	kindEnd      = 13
	kindAnswer   = 77
)

// down passes on what mpiexec says.
func (l *liar) down(in *bufio.Reader, helper io.Writer) {
	for {
		kind, frame, err := read(in)
		if err != nil {
			return
		}
		switch kind {
		case kindPrepare:
			l.mu.Lock()
			l.group = decode(frame, wire.Helper).(*wire.Prepare).Group.Name
			l.mu.Unlock()
		case kindEnd:
			l.at(atEnd)
		case kindAnswer:
			if m := decode(frame, wire.Helper).(*wire.Answer); strings.HasPrefix(m.ID, "forged") {
				l.answered(m)
				continue
			}
		}
		if _, err := helper.Write(frame); err != nil {
			return
		}
	}
}

// up passes on what the helper says, but for what a lie takes the place of.
func (l *liar) up(in *bufio.Reader) {
	for said := []byte(nil); !bytes.HasSuffix(said, []byte(wire.Magic)); {
		c, err := in.ReadByte()
		if err != nil {
			return
		}
		said = append(said, c)
		os.Stdout.Write([]byte{c})
	}
	for {
		kind, frame, err := read(in)
		if err != nil {
			return
		}
		if kind == kindNode && l.lie.when == atNode && l.lie.say == nil {
			m := decode(frame, wire.Launcher).(*wire.Node)
			m.Probe.Identity = "one and the same"
			frame = wire.Encode(m)
		} else if kind == kindNode && l.at(atNode) || kind == kindPrepared && l.at(atPrepared) {
			continue
		}
		l.mu.Lock()
		os.Stdout.Write(frame)
		l.mu.Unlock()
		if kind == kindData && bytes.HasSuffix(frame, []byte("go\n")) {
			l.at(atGo)
		}
	}
}

// at tells the lie if its moment has come, and reports that.
func (l *liar) at(m moment) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told || l.lie.when != m {
		return false
	}
	l.told = true
	for _, frame := range l.lie.say(l.group) {
		os.Stdout.Write(frame)
	}
	return true
}

// answered goes on with a lie that mpiexec has answered; the helper has not asked.
func (l *liar) answered(m *wire.Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, frame := range l.lie.answer(m) {
		os.Stdout.Write(frame)
	}
}

// read reads a frame.
func read(in *bufio.Reader) (kind byte, frame []byte, err error) {
	if kind, err = in.ReadByte(); err != nil {
		return 0, nil, err
	}
	size, err := binary.ReadUvarint(in)
	if err != nil {
		return 0, nil, err
	}
	frame = binary.AppendUvarint([]byte{kind}, size)
	start := len(frame)
	frame = append(frame, make([]byte, size)...)
	_, err = io.ReadFull(in, frame[start:])
	return kind, frame, err
}

// decode is the message in a frame, as one side reads it.
func decode(frame []byte, self wire.Side) wire.Message {
	here, there := net.Pipe()
	defer there.Close()
	go there.Write(frame)
	m, err := wire.NewConn(here, self).Recv()
	if err != nil {
		panic(err)
	}
	return m
}
