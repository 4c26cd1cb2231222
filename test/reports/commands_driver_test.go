package reports

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// driver is the command for the answers and the calls of the driver.
func (c command) driver() {
	const usage = "[!] driver answer|clear|calls|has|volume|snapshot ARGS"
	c.need(1, true, usage)
	verb := c.args[0]
	c.args = c.args[1:]
	if c.neg && verb != "has" {
		c.Fatalf("`! driver %s` means nothing", verb)
	}
	switch verb {
	case "answer":
		c.answer()
	case "clear":
		c.plane.driver.clear(c.namespace, strings.Join(c.args, ""))
	case "calls":
		c.calls()
	case "has":
		c.has()
	case "volume":
		c.makeVolume()
	case "snapshot":
		c.importSnapshot()
	default:
		c.Fatalf("usage: %s", usage)
	}
}

// codeOf returns the code with a name such as OutOfRange.
func (c command) codeOf(name string) codes.Code {
	if name == "Hang" {
		return codeHang
	}
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		if code.String() == name {
			return code
		}
	}
	c.Fatalf("%q is no gRPC code: use a name such as OutOfRange, or Hang", name)
	return codes.OK
}

func (c command) number(text string) int {
	n, err := strconv.Atoi(text)
	c.Check(err)
	return n
}

// takeOption removes a word with a prefix from the arguments, and returns the rest of it.
func (c *command) takeOption(prefix string) (value string, found bool) {
	i := slices.IndexFunc(c.args, func(a string) bool { return strings.HasPrefix(a, prefix) })
	if i < 0 {
		return "", false
	}
	value = strings.TrimPrefix(c.args[i], prefix)
	c.args = slices.Delete(slices.Clone(c.args), i, i+1)
	return value, true
}

// takeMatch removes volume=PATTERN and with=PATTERN from the arguments.
func (c *command) takeMatch() (m matcher) {
	if text, found := c.takeOption("volume="); found {
		m.subject = c.pattern(text)
	}
	if text, found := c.takeOption("with="); found {
		m.text = c.pattern(text)
	}
	return m
}

// checkMethod fails the script unless CSI has the method.
func checkMethod(c command, method string) {
	for _, s := range []any{
		csi.Controller_ServiceDesc.Methods, csi.Node_ServiceDesc.Methods, csi.GroupController_ServiceDesc.Methods,
	} {
		if strings.Contains(fmt.Sprint(s), "{"+method+" ") {
			return
		}
	}
	c.Fatalf("the CSI specification has no method %s", method)
}

func (c command) answer() {
	const usage = "driver answer METHOD CODE [MESSAGE] [times=N] [volume=PATTERN] [with=PATTERN] [after]"
	a := &answer{owner: c.namespace, left: -1, match: c.takeMatch()}
	if text, found := c.takeOption("times="); found {
		a.left = c.number(text)
	}
	c.need(2, false, usage)
	if last := len(c.args) - 1; c.args[last] == "after" {
		a.after, c.args = true, c.args[:last]
	}
	c.need(2, false, usage)
	a.method, a.code, a.message = c.args[0], c.codeOf(c.args[1]), strings.Join(c.args[2:], " ")
	checkMethod(c, a.method)
	c.plane.driver.set(a)
}

func (c command) calls() {
	match := c.takeMatch()
	c.need(2, false, "driver calls METHOD [volume=PATTERN] [with=PATTERN] min=N|max=N|==N")
	method, bound := c.args[0], c.args[1]
	checkMethod(c, method)
	count := func() []string { return c.plane.driver.called(c.namespace, method, match) }
	bounds := func(low, high int) func(context.Context) error {
		return func(context.Context) error {
			if calls := count(); len(calls) < low || len(calls) > high {
				return fmt.Errorf("%d calls of %s, want %s:\n%s", len(calls), method, bound, strings.Join(calls, "\n"))
			}
			return nil
		}
	}
	const any = 1 << 30
	switch kind, text, _ := strings.Cut(bound, "="); kind {
	case "min":
		c.wait(bounds(c.number(text), any))
	case "max":
		c.Check(bounds(0, c.number(text))(c.ctx()))
	case "":
		n := c.number(strings.TrimPrefix(text, "="))
		c.wait(bounds(n, any))
		c.Check(bounds(n, n)(c.ctx()))
	default:
		c.Fatalf("%s: say min=N, max=N or ==N", bound)
	}
}

func (c command) has() {
	c.need(2, true, "[!] driver has volume|snapshot|group PATTERN")
	want := c.pattern("^" + c.args[0] + "/.*(?:" + c.args[1] + ")")
	c.wait(func(context.Context) error {
		all := c.plane.driver.things(c.namespace, false)
		if slices.ContainsFunc(all, want.MatchString) != c.neg {
			return nil
		}
		return fmt.Errorf("the driver has %v", all)
	})
}

// bytes reads the size at an index of the arguments.
func (c command) bytes(index int) int64 {
	if len(c.args) <= index {
		return defaultBytes
	}
	size, err := resource.ParseQuantity(c.args[index])
	c.Check(err)
	return size.Value()
}

func (c command) ownHandle(handle string) string {
	if !strings.HasPrefix(handle, c.namespace+".") {
		c.Fatalf("handle %s must begin with $NS.", handle)
	}
	return handle
}

func (c command) makeVolume() {
	c.need(1, false, "driver volume HANDLE [SIZE]")
	v := &fakeVolume{id: c.ownHandle(c.args[0]), bytes: c.bytes(1)}
	d := c.plane.driver
	d.mu.Lock()
	defer d.mu.Unlock()
	d.volumes[v.id] = v
}

func (c command) importSnapshot() {
	c.need(2, false, "driver snapshot HANDLE VOLUME [SIZE]")
	made := &csi.Snapshot{
		SnapshotId: c.ownHandle(c.args[0]), SourceVolumeId: c.args[1], SizeBytes: c.bytes(2),
		CreationTime: timestamppb.Now(), ReadyToUse: true,
	}
	d := c.plane.driver
	d.mu.Lock()
	defer d.mu.Unlock()
	d.snapshots[made.GetSnapshotId()] = &fakeSnapshot{Snapshot: made}
}

// quietLives is the number of healthy claims that live meanwhile. A hot loop would run hundreds of times.
const quietLives = 5

// quiet asserts that something does not repeat while other claims are served.
func (c command) quiet() {
	c.need(2, false, "quiet calls METHOD max=N | quiet object KIND/NAME")
	switch c.args[0] {
	case "calls":
		c.args = c.args[1:]
		most, found := c.takeOption("max=")
		match := c.takeMatch()
		c.need(1, false, "quiet calls METHOD max=N")
		if !found {
			c.Fatalf("quiet calls: say max=N")
		}
		before := len(c.plane.driver.called(c.namespace, c.args[0], match))
		c.letClaimsLive()
		if n := len(c.plane.driver.called(c.namespace, c.args[0], match)) - before; n > c.number(most) {
			c.Fatalf("%d calls of %s meanwhile, want at most %s", n, c.args[0], most)
		}
	case "object":
		before := c.output(c.ctx(), []string{"kubectl", "get", c.args[1], "-o", "yaml"})
		c.letClaimsLive()
		if after := c.output(c.ctx(), []string{"kubectl", "get", c.args[1], "-o", "yaml"}); after != before {
			c.Fatalf("%s was written. Before:\n%s\nAfter:\n%s", c.args[1], before, after)
		}
	default:
		c.Fatalf("quiet %s: say calls or object", c.args[0])
	}
}

// letClaimsLive creates healthy claims, one after the other, and waits until each is bound and then
// deleted with its volume.
func (c command) letClaimsLive() {
	api := c.plane.Client
	for range quietLives {
		c.quiets++
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: fmt.Sprintf("quiet-%d", c.quiets)},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: new(c.quietClass()), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceStorage: resource.MustParse("1Gi"),
				}},
			},
		}
		c.Check(api.Create(c.ctx(), claim))
		c.wait(func(ctx context.Context) error {
			if err := api.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
				return err
			}
			if claim.Status.Phase != corev1.ClaimBound {
				return fmt.Errorf("healthy claim %s is %s", claim.Name, claim.Status.Phase)
			}
			return nil
		})
		c.Check(api.Delete(c.ctx(), claim))
		c.wait(func(context.Context) error {
			if left := c.plane.driver.things(c.quietClass(), true); len(left) > 0 {
				return fmt.Errorf("the volume of healthy claim %s is still there after %s", claim.Name, time.Since(claim.CreationTimestamp.Time))
			}
			return nil
		})
	}
}
