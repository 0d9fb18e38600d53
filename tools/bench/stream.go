//go:build linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"
)

// With the first of these arguments, this program writes lines, as a rank. With the second, it runs a command with
// generated input:
//
//	--lines N             write N lines of 78 bytes
//	--feed BYTES COMMAND  run COMMAND with BYTES bytes of standard input
const (
	linesArg = "--lines"
	feedArg  = "--feed"
)

// streamCases returns the cases that measure output and input. The input case is compared with the same program
// without a launcher, not with Hydra. Hydra 4.0.2 fails ("assert (!closed)") if its input arrives faster than a
// rank reads.
func (b *bench) streamCases() []testCase {
	r := roundLimits{5, 15, 12 * time.Second}
	lines := []string{"-n", "4", b.self, linesArg, "1000000"}
	labelled := append([]string{"-l"}, lines...)
	fed := []string{b.self, feedArg, "200000000"}
	return []testCase{
		{name: "1,000,000 lines of each of 4 ranks", figures: wallTimeGoal(0.6), rounds: r, ours: b.ownCommand(append([]string{"-q", "--no-pin"}, lines...)...), theirs: b.hydraCommand(lines...)},
		{name: "the same lines with labels", figures: wallTimeGoal(0.3), rounds: r, ours: b.ownCommand(append([]string{"-q", "--no-pin"}, labelled...)...), theirs: b.hydraCommand(labelled...)},
		{name: "200 MB of input, beside wc alone", figures: wallTimeGoal(1.5), rounds: r,
			ours: append(slices.Clone(fed), b.ownCommand("-q", "--no-pin", "-n", "1", "wc", "-c")...), theirs: append(slices.Clone(fed), "wc", "-c")},
	}
}

// writeLines writes count lines to standard output. It returns the exit code.
func writeLines(count string) int {
	n, err := strconv.Atoi(count)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	line := append(bytes.Repeat([]byte("x"), 77), '\n')
	out := bufio.NewWriterSize(os.Stdout, 64<<10)
	for range n {
		out.Write(line)
	}
	if err := out.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// A zeroReader is an endless stream of zero bytes.
type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// feedCommand runs a command whose standard input is count bytes of value 0. It returns the exit code.
func feedCommand(count string, words []string) int {
	n, err := strconv.ParseInt(count, 10, 64)
	if err == nil {
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = io.LimitReader(zeroReader{}, n), os.Stdout, os.Stderr
		err = cmd.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
