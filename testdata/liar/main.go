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
	"reflect"
	"strings"
	"sync"

	_ "remshell/feature"
	"remshell/job"
	"remshell/pin"
	"remshell/pmiserver/spawn"
	"remshell/wire"
)

// A lieTime is when a lie is told.
type lieTime int

const (
	atNode     lieTime = iota // in the place of Node
	atPrepared                // in the place of Prepared
	atGo                      // when a rank has written "go"
	atEnd                     // when mpiexec has said End
)

// A lie is what is said, and when. group is that of the job.
type lie struct {
	time    lieTime
	frames  func(group string) []wire.Frame
	onReply func(*wire.ControlReply) []wire.Frame // what follows when mpiexec answers what the lie has asked; nil: it asks nothing
}

func frames(messages ...wire.Message) (all []wire.Frame) {
	for _, m := range messages {
		all = append(all, wire.Encode(m))
	}
	return all
}

// fixedLie is a lie that needs to know nothing.
func fixedLie(when lieTime, messages ...wire.Message) lie {
	return lie{time: when, frames: func(string) []wire.Frame { return frames(messages...) }}
}

// rawLie is a frame that is none.
func rawLie(kind byte, size uint64, body ...byte) lie {
	frame := append(binary.AppendUvarint([]byte{kind}, size), body...)
	return lie{time: atGo, frames: func(string) []wire.Frame { return []wire.Frame{frame} }}
}

// groupLie is a lie with the name of the group.
func groupLie(when lieTime, make func(group string) wire.Message) lie {
	return lie{time: when, frames: func(group string) []wire.Frame { return frames(make(group)) }}
}

// example returns a message about a rank of a kind that a feature owns.
func example(kind string, rank int) wire.Message {
	for _, k := range wire.Kinds() {
		if k.Name == kind {
			return k.Example(rank)
		}
	}
	panic("no feature has the message " + kind)
}

// forgedStates returns a RankStates about rank 0.
func forgedStates() wire.Message {
	m := example("RankStates", 0)
	reflect.ValueOf(m).Elem().FieldByName("Ranks").Set(reflect.ValueOf([]job.RankState{{Rank: 0, Phase: "forged"}}))
	return m
}

func exited(e job.Exit) wire.Message { return &wire.Exited{Exit: e} }

func node(cpu int) wire.Message {
	return &wire.NodeInfo{Probe: job.Probe{Hostname: "n2", Topology: pin.Topology{Cores: []pin.Core{{CPUs: []int{cpu}}}}}}
}

var out = []byte("forged\n")

var lies = map[string]lie{
	"exit of another":         fixedLie(atGo, exited(job.Exit{Rank: 0})),
	"output of another":       fixedLie(atGo, &wire.Data{Rank: 0, Stream: wire.Stdout, Bytes: out}),
	"errors of another":       fixedLie(atGo, &wire.Data{Rank: 0, Stream: wire.Stderr, Bytes: out}),
	"abort of another":        fixedLie(atGo, &wire.PMIReport{Rank: 0, Event: wire.PMIAborted}),
	"junk of another":         fixedLie(atGo, &wire.PMIReport{Rank: 0, Event: wire.PMIMalformed, Text: "forged"}),
	"start of another":        fixedLie(atGo, &wire.Started{Rank: 0, PID: 1}),
	"failed start of another": fixedLie(atGo, &wire.Started{Rank: 0, Err: "forged", Code: 127}),
	"credit of another":       fixedLie(atGo, &wire.Credit{Rank: 0, Bytes: 1 << 20}),
	"end of another's input":  fixedLie(atGo, &wire.Data{Rank: 0, Stream: wire.Stdin}),
	"trace of another":        fixedLie(atGo, example("PMITrace", 0)),
	"states of another":       fixedLie(atGo, forgedStates()),
	"samples of another":      fixedLie(atGo, example("SampledUsage", 0)),
	"spawn for another": groupLie(atGo, func(group string) wire.Message {
		m := example("Spawn", 0)
		fields := reflect.ValueOf(m).Elem()
		fields.FieldByName("ID").SetInt(1 << 20)
		fields.FieldByName("Request").Set(reflect.ValueOf(spawn.Request{Group: group, Rank: 0, Commands: []spawn.Command{{Argv: []string{"touch", "forged"}, Count: 1}}}))
		return m
	}),
	"rank that is none":       fixedLie(atGo, exited(job.Exit{Rank: 99})),
	"negative rank":           fixedLie(atGo, &wire.Data{Rank: -1, Stream: wire.Stdout, Bytes: out}),
	"rank beyond all tables":  fixedLie(atGo, &wire.Data{Rank: 1 << 40, Stream: wire.Stderr, Bytes: out}),
	"start told twice":        fixedLie(atGo, &wire.Started{Rank: 2, PID: 1}),
	"exit code 256":           fixedLie(atGo, exited(job.Exit{Rank: 2, Code: 256})),
	"exit code 2^32":          fixedLie(atGo, exited(job.Exit{Rank: 2, Code: 1 << 32})),
	"exit code -1":            fixedLie(atGo, exited(job.Exit{Rank: 2, Code: -1})),
	"signal 65":               fixedLie(atGo, exited(job.Exit{Rank: 2, Signal: 65})),
	"output behind its end":   fixedLie(atGo, &wire.Data{Rank: 2, Stream: wire.Stdout}, &wire.Data{Rank: 2, Stream: wire.Stdout, Bytes: out}),
	"stream 7":                fixedLie(atGo, &wire.Data{Rank: 2, Stream: 7, Bytes: out}),
	"fence out of turn":       groupLie(atGo, func(group string) wire.Message { return &wire.Fence{ID: group + "/2"} }),
	"fence of another group":  fixedLie(atGo, &wire.Fence{ID: "other/0"}),
	"answer without question": fixedLie(atGo, &wire.DecisionLocked{Ahead: 1}),
	"second Prepared":         groupLie(atGo, func(group string) wire.Message { return &wire.Prepared{Group: group, Rendezvous: "192.0.2.1:1"} }),
	"second Refused":          groupLie(atGo, func(group string) wire.Message { return &wire.Refused{Group: group} }),
	"drained too early":       fixedLie(atGo, &wire.Drained{}),
	"Prepare to mpiexec":      fixedLie(atGo, &wire.Prepare{}),
	"Signal to mpiexec":       fixedLie(atGo, &wire.Signal{Number: 9}),
	"frame too large":         rawLie(33, 32<<20),
	"unknown kind":            rawLie(77, 0),
	"frame that ends early":   rawLie(15, 1, 2),
	"bytes too many":          rawLie(51, 2, 0, 0),
	"request told twice":      fixedLie(atGo, &wire.RankMapRequest{ID: 1 << 20, Group: "x"}, &wire.RankMapRequest{ID: 1 << 20, Group: "x"}),
	"second greeting":         fixedLie(atGo, &wire.Hello{}),
	"meeting point":           groupLie(atPrepared, func(group string) wire.Message { return &wire.Prepared{Group: group, Rendezvous: "192.0.2.1:1"} }),
	"exit before the start":   fixedLie(atPrepared, exited(job.Exit{Rank: 2})),
	"output before the start": fixedLie(atPrepared, &wire.Data{Rank: 2, Stream: wire.Stdout, Bytes: out}),
	"CPU 2^40":                fixedLie(atNode, node(1<<40)),
	"CPU -1":                  fixedLie(atNode, node(-1)),
	"second Hello":            fixedLie(atNode, &wire.Hello{}),
	"exit at the end":         fixedLie(atEnd, exited(job.Exit{Rank: 0})),
	"identity":                {time: atNode}, // see up
	"root asks":               rootRequestsLie(),
}

// checkpointRequests is how often root is said to ask for a checkpoint, before it is said to end the job.
const checkpointRequests = 40

// rootRequestsLie is a lie that is told again as soon as mpiexec has answered it.
func rootRequestsLie() lie {
	n := 0
	ask := func() []wire.Frame {
		n++
		verb := job.VerbCheckpoint
		if n > checkpointRequests {
			verb = job.VerbEnd
		}
		return frames(&wire.ControlRequest{ID: fmt.Sprint("forged", n), Role: job.RoleRoot, Request: job.ControlRequest{User: "root", Verb: verb}})
	}
	return lie{time: atGo, frames: func(string) []wire.Frame { return ask() }, onReply: func(m *wire.ControlReply) []wire.Frame {
		if m.State == job.ReplyAccepted || n > checkpointRequests {
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
	l := &lyingProxy{lie: lie}
	go func() {
		defer toHelper.Close()
		l.relayFromMpiexec(bufio.NewReader(os.Stdin), toHelper)
	}()
	l.relayFromHelper(bufio.NewReader(fromHelper))
	return helper.Wait()
}

// A lyingProxy is the two directions together.
type lyingProxy struct {
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

// relayFromMpiexec passes on what mpiexec says.
func (l *lyingProxy) relayFromMpiexec(in *bufio.Reader, helper io.Writer) {
	for {
		kind, frame, err := readFrame(in)
		if err != nil {
			return
		}
		switch kind {
		case kindPrepare:
			l.mu.Lock()
			l.group = decodeFrame(frame, wire.Helper).(*wire.Prepare).Group.Name
			l.mu.Unlock()
		case kindEnd:
			l.tellLieAt(atEnd)
		case kindAnswer:
			if m := decodeFrame(frame, wire.Helper).(*wire.ControlReply); strings.HasPrefix(m.ID, "forged") {
				l.continueLie(m)
				continue
			}
		}
		if _, err := helper.Write(frame); err != nil {
			return
		}
	}
}

// relayFromHelper passes on what the helper says, but for what a lie takes the place of.
func (l *lyingProxy) relayFromHelper(in *bufio.Reader) {
	for said := []byte(nil); !bytes.HasSuffix(said, []byte(wire.Magic)); {
		c, err := in.ReadByte()
		if err != nil {
			return
		}
		said = append(said, c)
		os.Stdout.Write([]byte{c})
	}
	for {
		kind, frame, err := readFrame(in)
		if err != nil {
			return
		}
		if kind == kindNode && l.lie.time == atNode && l.lie.frames == nil {
			m := decodeFrame(frame, wire.Launcher).(*wire.NodeInfo)
			m.Probe.Identity = "one and the same"
			frame = wire.Encode(m)
		} else if kind == kindNode && l.tellLieAt(atNode) || kind == kindPrepared && l.tellLieAt(atPrepared) {
			continue
		}
		l.mu.Lock()
		os.Stdout.Write(frame)
		l.mu.Unlock()
		if kind == kindData && bytes.HasSuffix(frame, []byte("go\n")) {
			l.tellLieAt(atGo)
		}
	}
}

// tellLieAt tells the lie if its moment has come, and reports that.
func (l *lyingProxy) tellLieAt(m lieTime) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told || l.lie.time != m {
		return false
	}
	l.told = true
	for _, frame := range l.lie.frames(l.group) {
		os.Stdout.Write(frame)
	}
	return true
}

// continueLie goes on with a lie that mpiexec has answered; the helper has not asked.
func (l *lyingProxy) continueLie(m *wire.ControlReply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, frame := range l.lie.onReply(m) {
		os.Stdout.Write(frame)
	}
}

// readFrame reads a frame.
func readFrame(in *bufio.Reader) (kind byte, frame []byte, err error) {
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

// decodeFrame is the message in a frame, as one side reads it.
func decodeFrame(frame []byte, self wire.Side) wire.Message {
	here, there := net.Pipe()
	defer there.Close()
	go there.Write(frame)
	m, err := wire.NewConn(here, self).Recv()
	if err != nil {
		panic(err)
	}
	return m
}
