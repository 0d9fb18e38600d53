//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"remshell/sshx"
	"remshell/tools/testbed"
)

// copies is what our program is delivered beside: a scp of it to each host, all at once.
const copies rival = "scp"

// slowLink is that of the rows over a slower network, to each host, in bits per second.
const slowLink = 100_000_000

// received is the name under which scp and the floor leave our program in a host's home.
const received = "received"

// deliveryCases are first starts: no host has our program, which is sent to each. The floor sends it
// by our SSH client to a cat.
func deliveryCases(program string, all []string) []testCase {
	var list []testCase
	for _, link := range []struct {
		hosts int
		rate  int64
	}{{1, 0}, {8, 0}, {1, slowLink}, {8, slowLink}} {
		hosts := all[:min(link.hosts, len(all))]
		c := onHosts("first start", "/bin/true", hosts, rounds{5, 15, 15 * time.Second})
		c.rival, c.fresh, c.rate = copies, hosts, link.rate
		// One scp for each host; the exit code is that of the one that failed, if any.
		script := `file=$1; shift; for host; do scp -O -q "$file" "$host:` + received + `" & all="$all $!"; done; for one in $all; do wait $one || exit; done`
		c.theirs = append([]string{"-c", script, "scp", program}, hosts...)
		c.floor = []string{"send", program, strings.Join(hosts, ",")}
		if link.rate > 0 {
			c.name += fmt.Sprintf(", each %d Mbit/s", link.rate/1_000_000)
		}
		list = append(list, c)
	}
	return list
}

// shape makes the links to the hosts of a case that fast; 0: as they were.
func (b *bench) shape(c testCase, rate int64) error {
	var errs []error
	if c.rate != 0 {
		for _, name := range c.fresh {
			errs = append(errs, b.field.Rate(name, rate))
		}
	}
	return errors.Join(errs...)
}

// forget takes from the hosts of a case all that a run has left there.
func (b *bench) forget(c testCase) error {
	var errs []error
	for _, name := range c.fresh {
		home := filepath.Join(b.field.Root(name), testbed.HomeDir())
		errs = append(errs, os.RemoveAll(filepath.Join(home, ".cache", "remshell")), os.RemoveAll(filepath.Join(home, received)))
	}
	return errors.Join(errs...)
}

// floorSend sends a file to all hosts at once, each over its own connection.
func floorSend(file, hosts string) error {
	return onEach(hosts, func(client *sshx.Client) error {
		in, err := os.Open(file)
		if err != nil {
			return err
		}
		defer in.Close()
		session, err := client.Start(context.Background(), "cat >"+received)
		if err != nil {
			return err
		}
		_, err = io.CopyBuffer(session, struct{ io.Reader }{in}, make([]byte, 64<<10))
		return errors.Join(err, session.CloseWrite(), session.Wait())
	})
}
