//go:build linux

package testbed

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"
)

// toolTimeout is how long ip(8) and nft(8) may take.
const toolTimeout = 20 * time.Second

// SetLink takes a host's link down or up at the head's end. As with a pulled cable, the
// host keeps its address, nothing arrives and no connection is told. A link that
// comes up carries after a second or two.
func (f *Cluster) SetLink(host string, up bool) error {
	if f.Kind != Namespaces {
		return f.unsupported("link of " + host)
	}
	if _, err := f.Host(host); err != nil {
		return err
	}
	state := map[bool]string{true: "up", false: "down"}[up]
	return f.runTool(Head, "", "ip", "link", "set", host, state)
}

// Block has the host's firewall drop what comes in, except over its loopback. With open
// ports, connections to these and answers to the host's own pass. Without, nothing
// does, established connections included: a black hole.
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

// Unblock removes what Block has set up.
func (f *Cluster) Unblock(host string) error {
	return f.firewall(host, "table inet field\ndelete table inet field\n")
}

func (f *Cluster) firewall(host, rules string) error {
	if f.Kind != Namespaces {
		return f.unsupported("firewall of " + host)
	}
	return f.runTool(host, rules, "nft", "-f", "-")
}

func (f *Cluster) runTool(host, stdin, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), toolTimeout)
	defer cancel()
	cmd := f.On(ctx, host, name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("field %s: %s: %s: %w: %s", f.Name, host, name, err, bytes.TrimSpace(out.Bytes()))
	}
	return nil
}
