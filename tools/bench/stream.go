//go:build linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// The words that make this program a rank that writes lines, and one that feeds a command:
//
//	--lines N             N lines of 78 bytes
//	--feed BYTES COMMAND  so many bytes to its standard input
const (
	linesArg = "--lines"
	feedArg  = "--feed"
)

// streamCases are those about output and input. self is this program. Hydra 4.0.2 gives up
// ("assert (!closed)") when its input comes faster than a rank reads, so that input is
// compared with the same bytes to the same program without a launcher.
func streamCases(self, names string) []testCase {
	r := rounds{5, 15, 12 * time.Second}
	output := func(name string, hosts string, options ...string) testCase {
		lines, n := "1000000", "4"
		if hosts != "" {
			options = append(options, "-hosts", hosts)
			lines, n = "250000", "8"
		}
		words := append(options, "-n", n, self, linesArg, lines)
		c := testCase{name: name, rival: hydra, rounds: r, theirs: words, ours: append([]string{"-q", "--no-pin"}, words...)}
		if hosts != "" {
			c.onHead, c.theirs = true, append([]string{"-launcher", "ssh"}, words...)
		}
		return c
	}
	input := func(name string, options ...string) testCase {
		return testCase{name: name, rounds: r, rival: ourselves, feed: 200_000_000,
			ours: append(append([]string{"-q", "--no-pin"}, options...), "wc", "-c"), theirs: []string{"wc", "-c"}}
	}
	eight := strings.Join(strings.Split(names, ",")[:8], ",")
	far := input("input to all of 32 on 8 hosts, to wc", "-stdin", "all", "-hosts", strings.ReplaceAll(eight, ",", ":4,")+":4", "-n", "32")
	far.onHead, far.feed = true, 20_000_000
	return []testCase{
		output("output, 4 local ranks", ""),
		output("output -l, 4 local ranks", "", "-l"),
		output("output -l, 8 hosts", eight, "-l"),
		input("input to 1 rank, to wc", "-n", "1"),
		input("input to all of 4, to wc", "-stdin", "all", "-n", "4"),
		far,
	}
}

// fed puts the feeding of a case before both programs.
func (c testCase) fed(self string, sides [][]string) {
	bytes := strconv.FormatInt(c.feed, 10)
	sides[0] = append([]string{self, feedArg, bytes}, sides[0]...)
	sides[1] = append([]string{self, feedArg, bytes}, c.theirs...)
}

// writeLines is the rank.
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

// zeros never end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// feed runs a command with so many bytes as its standard input.
func feed(count string, words []string) int {
	n, err := strconv.ParseInt(count, 10, 64)
	if err == nil {
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = io.LimitReader(zeros{}, n), os.Stdout, os.Stderr
		err = cmd.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
