package main

import "testing"

func TestWhichClusterTakesPart(t *testing.T) {
	for name, test := range map[string]struct {
		options cephOptions
		good    bool
	}{
		"none":                {cephOptions{}, true},
		"one that is there":   {cephOptions{conf: "/etc/ceph", keyFile: "key"}, true},
		"one without a key":   {cephOptions{conf: "/etc/ceph"}, false},
		"one that is started": {cephOptions{own: true}, true},
		"two":                 {cephOptions{own: true, conf: "/etc/ceph", keyFile: "key"}, false},
	} {
		if err := test.options.check(); (err == nil) != test.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}
