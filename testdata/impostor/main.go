//go:build linux

/*
Impostor is a user who claims CPUs under the ID of another user's job, and answers all that is asked of that job:

	impostor JOB      until standard input ends

At its status socket it serves states without end, and asks for states are answered by tens of thousands.
*/
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper/probe"
	"remshell/job"
	"remshell/ledger"
)

func main() {
	if err := run(job.ID(os.Args[1])); err != nil {
		fmt.Fprintln(os.Stderr, "impostor:", err)
		os.Exit(1)
	}
}

func run(id job.ID) error {
	d, err := ledger.Open("", probe.Identity(os.DirFS("/")))
	if err != nil {
		return err
	}
	claim := job.Claim{Job: id, UID: os.Geteuid(), User: "root", LauncherHost: "here", Node: "localhost", Nodes: 1, Size: 4, Since: time.Now(), PID: os.Getpid()}
	for rank := range 4 {
		claim.Ranks = append(claim.Ranks, job.ClaimedRank{Rank: rank})
	}
	held, err := d.TakeClaim(context.Background(), claim, func(ledger.OtherClaims) error { return nil })
	if err != nil {
		return err
	}
	defer held.Release()
	if err := serve(id); err != nil {
		return err
	}
	go func() {
		for answered := make(map[string]bool); ; time.Sleep(10 * time.Millisecond) {
			asks, _ := filepath.Glob(d.Path() + "-*/ask-" + string(id) + "-*")
			for _, ask := range asks {
				if !answered[ask] {
					answered[ask] = true
					fakeReply(d, ask)
				}
			}
		}
	}()
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func fakeReply(d *ledger.Dir, file string) {
	var ask job.ControlRequest
	text, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(text, &ask) != nil {
		return // it was taken back
	}
	a := job.ControlReply{Job: ask.Job, UID: os.Geteuid(), State: job.ReplyDone, Text: "done by the impostor"}
	for rank := range 20_000 {
		if ask.Verb == job.VerbStatus {
			a.Ranks = append(a.Ranks, job.NodeRankState{RankState: job.RankState{Rank: rank, Phase: "running"}})
		}
	}
	random := file[strings.LastIndex(file, "-")+1:]
	for _, name := range []string{random, fmt.Sprintf("%d-%s", ask.UID, random)} { // one of them is of another version
		if _, err := d.PostReply(name, a); err != nil {
			fmt.Fprintln(os.Stderr, "impostor:", err)
		}
	}
}

// serve serves the status socket of a helper, as package nodestate of the feature status names it.
func serve(id job.ID) error {
	dir := fmt.Sprintf("/tmp/remshell-%d", os.Geteuid())
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	var space unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &space); err != nil {
		return err
	}
	l, err := net.Listen("unix", fmt.Sprintf("%s/%s.%d.%d", dir, id, space.Ino, os.Getpid()))
	if err != nil {
		return err
	}
	go func() {
		for many := strings.Repeat("{},", 2_700_000); ; {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { io.WriteString(conn, "["+many+"{}]\n"); conn.Close() }()
		}
	}()
	return nil
}
