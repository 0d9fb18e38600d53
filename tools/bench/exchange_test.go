//go:build linux

package main

import (
	"strings"
	"testing"
	"time"
)

func TestExchangeWords(t *testing.T) {
	tests := []struct {
		c          exchangeCase
		name, want string
	}{
		{exchangeCase{rival: hydra, per: 512}, "exchange, local, 512 ranks", "-hosts localhost:512 -n 512 " + exchange},
		{exchangeCase{rival: hydra, hosts: 2, per: 16}, "exchange, 2 hosts, 32 ranks", "-hosts a:16,b:16 -n 32 " + exchange},
		{exchangeCase{rival: mpirun, per: 64}, "PMIx exchange, local, 64 ranks", "-host localhost:64 -n 64 " + modex},
	}
	for _, test := range tests {
		got := strings.Join(test.c.words([]string{"a", "b", "c"}), " ")
		if got != test.want || test.c.name() != test.name {
			t.Errorf("%s: got %q, want %q", test.c.name(), got, test.want)
		}
	}
}

func TestParseSwap(t *testing.T) {
	got, err := parseSwap("4 900 800 700 600 5\n", 4)
	if want := (swap{900, 800, 700, 600, 5}); got != want || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	for _, said := range []string{"", "4 900 800 700 600\n", "3 900 800 700 600 5\n"} {
		if got, err := parseSwap(said, 4); err == nil {
			t.Errorf("%q: got %v and no error", said, got)
		}
	}
}

func TestExchangeTable(t *testing.T) {
	ms := time.Millisecond
	r := exchangeRow{exchangeCase: exchangeCase{rival: hydra, per: 100, most: 0.4}}
	r.swaps[0] = []swap{{span: 300 * ms, total: 100 * ms, gets: 90 * ms, cpu: 50 * ms, peak: 2048}, {span: 300 * ms, total: 300 * ms, gets: 110 * ms, cpu: 50 * ms, peak: 1024}}
	r.swaps[1] = []swap{{span: 600 * ms, total: 400 * ms, gets: 380 * ms, cpu: 200 * ms, peak: 4096}, {span: 600 * ms, total: 600 * ms, gets: 420 * ms, cpu: 200 * ms, peak: 4096}}
	r.runs = [2][]sample{samples(1000, 1000), samples(2000, 2000)}
	got := exchangeTable([]exchangeRow{r})
	for _, want := range []string{
		"| exchange, local, 100 ranks | 2 | 200 (100) | 500 (400) | 0.375 | 0.500 | 10.0 | 40.0 | 50.0 (50.0) | 200 (200) | 0.250 | 2.0 | 4.0 | 100 (100) | 200 (200) | 0.0 | 0.0 |\n",
		"- exchange, local, 100 ranks: 0.375 of Hydra's; goal at most 0.40: reached\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no line\n%sin\n%s", want, got)
		}
	}
}
