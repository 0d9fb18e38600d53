//go:build linux

package main

import (
	"testing"
	"time"
)

func TestAllreduceTime(t *testing.T) {
	if got, err := allreduceTime(sample{wall: time.Minute, output: "20000\n40000\n"}); got != time.Second || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	for _, text := range []string{"", "5 x", "0 3", "-1"} {
		if got, err := allreduceTime(sample{wall: time.Minute, output: text}); err == nil {
			t.Errorf("%q: got %v and no error", text, got)
		}
	}
}
