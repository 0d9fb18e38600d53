package pmitest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
)

/*
RunScript runs one rank of a parallel test program. The script is a list of commands separated
by ";":

	hello                    prints rank, size, appnum, host, and whether the rank was spawned
	put KEY VALUE            get KEY prints the value
	barrier
	publish NAME PORT        also lookup NAME and unpublish NAME; each prints the result
	await NAME               looks NAME up until it is found, and prints its port
	tell NAME                publishes NAME without output
	hosts                    prints the table of get_ranks2hosts
	spawn N SCRIPT K=V ...   starts N ranks with another script and these info keys; a +
	                         separates several: spawn 2 child + 1 other wdir=/
	env NAME                 prints an environment variable
	say TEXT, exit CODE, abort CODE TEXT, hang, finalize
	R: COMMAND               only rank R runs the command

If a command fails, the rank prints "spawn failed: ..." and goes on. The scripts of spawned ranks
are environment variables, TALK_SCRIPT. Their program is the value of the variable TALK; by
default it is the program of the parent.
*/
func RunScript(script string, getenv func(string) string, out io.Writer) error {
	t := &scriptRun{getenv: getenv, out: out}
	if err := t.connect(); err != nil {
		return err
	}
	if err := t.c.Init(); err != nil {
		return err
	}
	for command := range strings.SplitSeq(script, ";") {
		if err := t.runCommand(strings.TrimSpace(command)); err != nil {
			return err
		}
	}
	if t.finalized {
		return nil
	}
	return t.c.Finalize()
}

type scriptRun struct {
	RankAndSize
	c         *Client
	conn      io.ReadWriter
	getenv    func(string) string
	out       io.Writer
	finalized bool // the script ran finalize
}

// connect connects to the PMI server as MPI libraries do (pmi-wire.md 1.1).
func (t *scriptRun) connect() (err error) {
	if fd, err := strconv.Atoi(t.getenv("PMI_FD")); err == nil {
		t.conn = os.NewFile(uintptr(fd), "PMI_FD")
		t.c = NewClient(t.conn)
		t.Rank, err = strconv.Atoi(t.getenv("PMI_RANK"))
		size, errSize := strconv.Atoi(t.getenv("PMI_SIZE"))
		t.Size = size
		return errors.Join(err, errSize)
	}
	id, err := strconv.Atoi(t.getenv("PMI_ID"))
	if err != nil {
		return errors.New("neither PMI_FD nor PMI_ID in the environment; start it with mpiexec")
	}
	conn, err := net.Dial("tcp", t.getenv("PMI_PORT"))
	if err != nil {
		return err
	}
	t.conn, t.c = conn, NewClient(conn)
	t.RankAndSize, err = t.c.Acknowledge(id)
	return err
}

func (t *scriptRun) print(format string, args ...any) {
	fmt.Fprintf(t.out, format+"\n", args...)
}

// printResult prints the result of a command, or its error.
func (t *scriptRun) printResult(what, value string, err error) {
	switch {
	case err != nil:
		reason := err.Error()
		if at := strings.LastIndex(reason, "msg="); at >= 0 {
			reason = strings.TrimSuffix(reason[at+4:], `"`)
		}
		t.print("%s failed: %s", what, reason)
	case value != "":
		t.print("%s: %s", what, value)
	default:
		t.print("%s", what)
	}
}

func (t *scriptRun) runCommand(command string) error {
	if number, rest, ok := strings.Cut(command, ": "); ok {
		if rank, err := strconv.Atoi(number); err == nil {
			if rank != t.Rank {
				return nil
			}
			command = rest
		}
	}
	word, rest, _ := strings.Cut(command, " ")
	first, second, _ := strings.Cut(rest, " ")
	switch word {
	case "":
	case "hello":
		return t.hello()
	case "put":
		return t.c.Put(first, second)
	case "get":
		value, found, err := t.c.Get(first)
		if !found && err == nil {
			value = "nothing"
		}
		t.printResult(command, value, err)
	case "barrier":
		return t.c.Barrier()
	case "publish":
		t.printResult("publish "+first, "", t.c.Publish(first, second))
	case "tell":
		return t.c.Publish(first, "told")
	case "lookup":
		port, err := t.c.Lookup(first)
		t.printResult(command, port, err)
	case "await":
		port, err := t.c.Lookup(first)
		for ; err != nil; port, err = t.c.Lookup(first) {
		}
		t.printResult(command, port, nil)
	case "unpublish":
		t.printResult(command, "", t.c.Unpublish(first))
	case "hosts":
		table, err := t.c.Hosts()
		t.printResult(command, table, err)
	case "spawn":
		t.printResult("spawn", "", t.spawn(rest))
	case "env":
		t.printResult(command, cmp.Or(t.getenv(first), "unset"), nil)
	case "say":
		t.print("%s", rest)
	case "finalize":
		t.finalized = true
		return t.c.Finalize()
	case "exit":
		code, err := strconv.Atoi(first)
		if err == nil {
			os.Exit(code)
		}
		return err
	case "abort":
		code, err := strconv.Atoi(first)
		return errors.Join(err, t.c.Abort(code, second), t.hang())
	case "hang":
		return t.hang()
	default:
		return fmt.Errorf("no such command: %q", command)
	}
	return nil
}

// hang waits for ever.
func (t *scriptRun) hang() error {
	_, err := io.ReadFull(t.conn, make([]byte, 1))
	return err
}

func (t *scriptRun) hello() error {
	app, err := t.c.AppNum()
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	spawned := ""
	if t.getenv("PMI_SPAWNED") == "1" {
		spawned = ", spawned"
	}
	t.print("rank %d of %d, appnum %d on %s%s", t.Rank, t.Size, app, host, spawned)
	return err
}

// spawn starts the programs of a spawn command. The children find the group of this rank under the key
// "parent".
func (t *scriptRun) spawn(args string) error {
	var programs []Program
	for part := range strings.SplitSeq(args, " + ") {
		f := strings.Fields(part)
		if len(f) < 2 {
			return fmt.Errorf("spawn what? %q", part)
		}
		n, err := strconv.Atoi(f[0])
		if err != nil {
			return err
		}
		p := Program{Argv: []string{cmp.Or(t.getenv("TALK"), os.Args[0]), "@" + f[1]}, Count: n}
		for _, pair := range f[2:] {
			key, value, _ := strings.Cut(pair, "=")
			if key == "program" {
				p.Argv[0] = value
				continue
			}
			p.Info = append(p.Info, [2]string{key, value})
		}
		programs = append(programs, p)
	}
	return t.c.Spawn([][2]string{{"parent", t.c.Name}}, programs...)
}

// ScriptOf returns the script that an argument names: the argument itself, or with a leading @ the
// value of an environment variable.
func ScriptOf(arg string, getenv func(string) string) string {
	if name, named := strings.CutPrefix(arg, "@"); named {
		return getenv("TALK_" + name)
	}
	return arg
}
