package backupclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
)

// Client is a backup program with an account. API has the permissions of the program.
type Client struct {
	API                client.Client
	Namespace, Account string // of the account that the token is for
	Audience           string // in place of that of the service; empty for that
}

// tokenSeconds is how long a token of upstream's iterator is valid.
const tokenSeconds = 600

// Connect finds the service of the snapshot's driver, and returns a connection and a token, in the
// order of upstream's iterator (CB-18, CB-28).
func (c Client) Connect(ctx context.Context, namespace, snapshot string) (*grpc.ClientConn, string, error) {
	content, err := c.content(ctx, namespace, snapshot)
	if err != nil {
		return nil, "", err
	}
	var service kube.SnapshotMetadataService
	if err := c.API.Get(ctx, client.ObjectKey{Name: content.Spec.Driver}, &service); err != nil {
		return nil, "", err
	}
	audience := service.Spec.Audience
	if c.Audience != "" {
		audience = c.Audience
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Account}}
	token := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{audience}, ExpirationSeconds: new(int64(tokenSeconds)),
	}}
	if err := c.API.SubResource("token").Create(ctx, account, token); err != nil {
		return nil, "", err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(service.Spec.CACert) {
		return nil, "", errors.New("the service has no certificate authority")
	}
	conn, err := grpc.NewClient(service.Spec.Address, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		RootCAs: pool, MinVersion: tls.VersionTLS12,
	})))
	return conn, token.Status.Token, err
}

// Handle returns the CSI handle of a snapshot, which a delta begins at.
func (c Client) Handle(ctx context.Context, namespace, snapshot string) (string, error) {
	content, err := c.content(ctx, namespace, snapshot)
	if err != nil {
		return "", err
	}
	if content.Status == nil || content.Status.SnapshotHandle == nil {
		return "", fmt.Errorf("content %s has no handle", content.Name)
	}
	return *content.Status.SnapshotHandle, nil
}

func (c Client) content(ctx context.Context, namespace, name string) (*snapshotv1.VolumeSnapshotContent, error) {
	var snapshot snapshotv1.VolumeSnapshot
	if err := c.API.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &snapshot); err != nil {
		return nil, err
	}
	if snapshot.Status == nil || snapshot.Status.BoundVolumeSnapshotContentName == nil {
		return nil, fmt.Errorf("snapshot %s/%s has no content", namespace, name)
	}
	var content snapshotv1.VolumeSnapshotContent
	err := c.API.Get(ctx, client.ObjectKey{Name: *snapshot.Status.BoundVolumeSnapshotContentName}, &content)
	return &content, err
}
