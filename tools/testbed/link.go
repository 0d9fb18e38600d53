//go:build linux

package testbed

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"
)

// toolTimeout is the maximum time for one run of ip(8) or nft(8).
const toolTimeout = 20 * time.Second

// SetLink takes the head's end of a host's network link up or down. While the link is down, the host keeps its
// address, packets are lost and connections get no error, as with a pulled cable. A link carries packets again one
// or two seconds after it is taken up. SetLink needs kind Namespaces.
func (f *Cluster) SetLink(host string, isUp bool) error {
	if f.Kind != Namespaces {
		return f.unsupported("link of " + host)
	}
	if _, err := f.Host(host); err != nil {
		return err
	}
	state := map[bool]string{true: "up", false: "down"}[isUp]
	return f.runTool(Head, "", "ip", "link", "set", host, state)
}

// Block makes the host's firewall drop all incoming packets, except on its loopback interface. If ports are given
// in open, packets to these ports and packets of established connections pass. If open is empty, even established
// connections are blocked. Block needs kind Namespaces.
func (f *Cluster) Block(host string, open ...int) error {
	var rules strings.Builder
	rules.WriteString("table inet field\ndelete table inet field\ntable inet field {\n" +
		"chain input {\ntype filter hook input priority 0; policy drop;\niif lo accept\n")
	for i, port := range open {
		if i == 0 {
			rules.WriteString("ct state established,related accept\n")
		}
		fmt.Fprintf(&rules, "tcp dport %d accept\n", port)
	}
	rules.WriteString("}\n}\n")
	return f.firewall(host, rules.String())
}

// Unblock removes the firewall rules that Block has set.
func (f *Cluster) Unblock(host string) error {
	return f.firewall(host, "table inet field\ndelete table inet field\n")
}

// firewall runs nft(8) on a host with the given rules.
func (f *Cluster) firewall(host, rules string) error {
	if f.Kind != Namespaces {
		return f.unsupported("firewall of " + host)
	}
	return f.runTool(host, rules, "nft", "-f", "-")
}

// runTool runs a command on a host, or on the head, with stdin as its input.
func (f *Cluster) runTool(host, stdin, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), toolTimeout)
	defer cancel()
	cmd := f.On(ctx, host, name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("test cluster %s: %s: %s: %w: %s", f.Name, host, name, err, bytes.TrimSpace(out.Bytes()))
	}
	return nil
}
