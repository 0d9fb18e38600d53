//go:build linux

package helper

import (
	"math"
	"testing"
	"testing/fstest"
)

func TestClip(t *testing.T) {
	for _, test := range []struct {
		soft       int64
		hard, want uint64
	}{{10, 20, 10}, {30, 20, 20}, {-1, 20, 20}, {-1, math.MaxUint64, math.MaxUint64}, {0, 20, 0}} {
		if got := clip(test.soft, test.hard); got != test.want {
			t.Errorf("%d below %d: %d, want %d", test.soft, test.hard, got, test.want)
		}
	}
}

func TestModel(t *testing.T) {
	for alias, want := range map[string]string{
		"cpu:type:x86,ven0000fam0006mod00CF:feature:,0000,0001,0002\n": "x86,ven0000fam0006mod00CF with 3 features",
		"cpu:type:aarch64:feature:,0000\n":                             "aarch64 with 1 features",
		"":                                                             "",
	} {
		root := fstest.MapFS{"sys/devices/system/cpu/modalias": {Data: []byte(alias)}}
		if got := model(root); got != want {
			t.Errorf("%q: %q, want %q", alias, got, want)
		}
	}
}
