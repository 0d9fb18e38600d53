//go:build linux

package main

import "testing"

func TestExchangeTime(t *testing.T) {
	if got, err := exchangeTime(4)(sample{output: "4 900 800 700 600 5\n"}); got != 800 || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	for _, line := range []string{"", "4 900 800 700 600\n", "3 900 800 700 600 5\n"} {
		if got, err := exchangeTime(4)(sample{output: line}); err == nil {
			t.Errorf("%q: got %v and no error", line, got)
		}
	}
}
