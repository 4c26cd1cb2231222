package sim

import (
	"context"
	"fmt"
	"hash/fnv"
	"reflect"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// op is a write to the API server, or a call to the driver.
type op struct {
	text    string
	call    bool
	journal bool
}

// do is the only way of a process to the world outside.
func (p *process) do(o op, send func(n int) error) error {
	p.travel(o.text)
	if p.isDead() {
		return errDead
	}
	w := p.world
	if !o.journal {
		w.doing(fmt.Sprintf("process %d: %s", p.number, o.text))
	}
	n := w.begin(o)
	where, dies := w.schedule.crashAt(n)
	if dies && where == before {
		w.log("%3d process %d: %s: not sent", n, p.number, o.text)
		p.kill()
		return errDead
	}
	if dies && where == inFlight { // the call goes its way, its caller is gone
		w.log("%3d process %d: %s: under way", n, p.number, o.text)
		err := send(n)
		p.kill()
		w.happened(p, n)
		return err
	}
	if dies && where == under {
		go p.arrivesLate(n, o, send)
		p.kill()
		return errDead
	}
	if w.schedule.slowAt == n {
		time.Sleep(w.schedule.slowFor)
	}
	err := p.send(n, o, send)
	w.log("%3d process %d: %s: %s", n, p.number, o.text, said(err))
	w.happened(p, n)
	switch {
	case dies && where == lost:
		p.kill()
		return errDead
	case dies:
		go func() {
			time.Sleep(50 * time.Microsecond) // enough to think, not enough to send anything
			p.kill()
		}()
	case w.schedule.loseAnswer == n && !o.call && err == nil:
		w.log("%3d its answer is lost", n)
		return apierrors.NewTimeoutError("the answer is lost", 0)
	}
	if reason := apierrors.ReasonForError(err); err != nil && !o.call && reason != "" {
		w.operations.addRefused(fmt.Sprintf("%s: %s", o.text, reason))
	}
	if p.isDead() { // another goroutine killed it meanwhile
		return errDead
	}
	return err
}

// send has the request arrive, unless there is an outage.
func (p *process) send(n int, o op, send func(n int) error) error {
	if !o.call {
		if err := p.world.refused(o.text, false, o.journal); err != nil {
			return err
		}
	}
	return send(n)
}

func said(err error) string {
	if err == nil {
		return "ok"
	}
	return err.Error()
}

// arrivesLate sends what a process that is dead by then has sent.
func (p *process) arrivesLate(n int, o op, send func(n int) error) {
	w := p.world
	w.log("%3d process %d: %s: on its way", n, p.number, o.text)
	time.Sleep(w.schedule.slowFor)
	err := send(n)
	w.log("%3d process %d: %s: arrives: %s", n, p.number, o.text, said(err))
	w.happened(p, n)
}

// travel is the time to the API server. Requests take unlike times, so that no two things happen at
// the same instant.
func (p *process) travel(what string) {
	n := p.world.operations.count()
	unlike := fnv.New32()
	unlike.Write([]byte(what))
	time.Sleep(400*time.Microsecond + time.Duration(n*7%31)*10*time.Microsecond + time.Duration(p.number)*time.Microsecond +
		time.Duration(unlike.Sum32()%211)*100*time.Nanosecond)
}

// gatedClient is the API server as one process sees it.
type gatedClient struct {
	client.Client
	process *process
}

func describe(verb string, o client.Object) op {
	kind := reflect.TypeOf(o).Elem().Name()
	return op{text: fmt.Sprintf("%s %s %s", verb, kind, o.GetName()), journal: kind == "Lease"}
}

// read is what a request that changes nothing has on its way.
func (p *process) read(text string) error {
	p.travel(text)
	if p.isDead() {
		return errDead
	}
	return p.world.refused(text, true, false)
}

func (c gatedClient) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if err := c.process.read("get " + key.Name); err != nil {
		return err
	}
	err := c.Client.Get(ctx, key, o, opts...)
	if err == nil {
		c.process.asked(o)
	}
	return err
}

// made notes a volume that this process has written for the first time.
func (p *process) made(o client.Object) {
	if _, ok := o.(*corev1.PersistentVolume); ok {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.first[o.GetUID()] = o.GetResourceVersion()
	}
}

// asked notes who asks for a volume that was not changed since it was created.
func (p *process) asked(o client.Object) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.first[o.GetUID()] == o.GetResourceVersion() {
		p.world.operations.addNeedlessRead(fmt.Sprintf("process %d reads %s, which is unchanged since it created it", p.number, o.GetName()))
	}
}

func (c gatedClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := c.process.read("list"); err != nil {
		return err
	}
	return c.Client.List(ctx, list, opts...)
}

func (c gatedClient) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	err := c.process.do(describe("create", o), func(int) error { return c.Client.Create(ctx, o, opts...) })
	if err == nil {
		c.process.made(o)
	}
	return err
}

func (c gatedClient) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	return c.process.do(describe("update", o), func(int) error {
		defer c.process.releasing(o)()
		return c.Client.Update(ctx, o, opts...)
	})
}

func (c gatedClient) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	return c.process.do(describe("patch", o), func(int) error {
		defer c.process.releasing(o)()
		return c.Client.Patch(ctx, o, p, opts...)
	})
}

func (c gatedClient) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	return c.process.do(describe("delete", o), func(int) error { return c.Client.Delete(ctx, o, opts...) })
}

func (c gatedClient) Status() client.SubResourceWriter {
	return gatedStatus{c.Client.Status(), c.process}
}

// gatedStatus is the writer of statuses as one process sees it.
type gatedStatus struct {
	client.SubResourceWriter
	process *process
}

func (s gatedStatus) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
	return s.process.do(describe("patch the status of", o), func(int) error { return s.SubResourceWriter.Patch(ctx, o, p, opts...) })
}

func (s gatedStatus) Update(ctx context.Context, o client.Object, opts ...client.SubResourceUpdateOption) error {
	return s.process.do(describe("update the status of", o), func(int) error { return s.SubResourceWriter.Update(ctx, o, opts...) })
}

// gatedDriver is the driver as one process sees it.
type gatedDriver struct {
	csi.ControllerClient
	process *process
}

func (d gatedDriver) CreateVolume(ctx context.Context, in *csi.CreateVolumeRequest, _ ...grpc.CallOption) (out *csi.CreateVolumeResponse, err error) {
	defer d.process.occupy(in.GetName(), "CreateVolume")()
	err = d.process.do(op{text: "CreateVolume " + in.GetName(), call: true}, func(n int) (err error) {
		d.process.world.copying(in)
		d.process.copies(in.GetName())
		d.process.world.asked(in)
		out, err = d.process.world.driver.Create(ctx, in, d.process.world.schedule.faultOf(n))
		return err
	})
	return out, asCall(err)
}

func (d gatedDriver) DeleteVolume(ctx context.Context, in *csi.DeleteVolumeRequest, _ ...grpc.CallOption) (*csi.DeleteVolumeResponse, error) {
	w := d.process.world
	defer d.process.occupy(w.driver.NameOf(in.GetVolumeId()), "DeleteVolume")()
	err := d.process.do(op{text: "DeleteVolume " + in.GetVolumeId(), call: true}, func(n int) error {
		if w.work.shares && w.schedule.slowAt == n && w.schedule.rivalAt > 0 { // docs/limitations.md: it cannot be called back
			return status.Error(codes.Unavailable, "it never arrives")
		}
		return w.driver.Delete(ctx, in.GetVolumeId(), w.schedule.faultOf(n))
	})
	return &csi.DeleteVolumeResponse{}, asCall(err)
}

func asCall(err error) error {
	if err == errDead { //nolint:errorlint // exactly this one
		return status.Error(codes.Unavailable, err.Error())
	}
	return err
}

// occupy notes that a call for a volume is under way (I7).
func (p *process) occupy(volume, method string) (leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if other := p.working[volume]; other != "" && !p.isDead() {
		p.world.violate("I7: %s and %s of volume %s overlap", other, method, volume)
	}
	p.working[volume] = method
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.working, volume)
	}
}
