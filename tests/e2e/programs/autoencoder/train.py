import os

import torch
from torch import nn
from torch.autograd import Variable
from torch.utils.data import DataLoader
from sklearn.datasets import load_digits

if not os.path.exists('./dc_img'):
    os.mkdir('./dc_img')

torch.manual_seed(4)
num_epochs = 3
batch_size = 40
learning_rate = 1e-2
use_gpu = torch.cuda.is_available()

dataset = [(torch.tensor(im).float().view(-1) / 16, int(t)) for im, t in zip(load_digits().images[:250], load_digits().target[:250])]
dataloader = DataLoader(dataset, batch_size=batch_size, shuffle=True)


class autoencoder(nn.Module):
    def __init__(self):
        super(autoencoder, self).__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 24), nn.ReLU(True), nn.Linear(24, 3))
        self.decoder = nn.Sequential(nn.Linear(3, 24), nn.ReLU(True), nn.Linear(24, 64), nn.Sigmoid())

    def forward(self, x):
        x = self.encoder(x)
        x = self.decoder(x)
        return x


model = autoencoder()
if use_gpu:
    model = model.cuda()
criterion = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate, weight_decay=1e-5)

for epoch in range(num_epochs):
    for data in dataloader:
        img, _ = data
        img = img.view(img.size(0), -1)
        img = Variable(img).cuda() if use_gpu else Variable(img)
        # ===================forward=====================
        output = model(img)
        loss = criterion(output, img)
        MSE_loss = nn.MSELoss()(output, img)
        # ===================backward====================
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    # ===================log========================
    print('epoch [{}/{}], loss:{:.4f}, MSE_loss:{:.4f}'
          .format(epoch + 1, num_epochs, loss.data, MSE_loss.data))
    if epoch % 2 == 0:
        pic = output.cpu().data.view(-1, 8, 8)
        torch.save(pic, './dc_img/image_{}.pt'.format(epoch))

torch.save(model.state_dict(), './sim_autoencoder.pth')
codes = []
labels = []
for img, label in dataloader:
    with torch.no_grad():
        codes.append(model.encoder(img.cuda() if use_gpu else img).cpu())
    labels.append(label)
codes = torch.cat(codes)
labels = torch.cat(labels)
for digit in range(3):
    print(digit, codes[labels == digit].mean(0).norm())
