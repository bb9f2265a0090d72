import argparse
import os
import shutil

import torch
import torch.nn as nn

from data import get_loaders
from engine import train, validate
from model import build_model

parser = argparse.ArgumentParser()
parser.add_argument('--arch', default='cnn')
parser.add_argument('--epochs', default=3, type=int)
parser.add_argument('-b', '--batch-size', default=48, type=int)
parser.add_argument('--lr', default=0.1, type=float)
parser.add_argument('--resume', default='', type=str)
parser.add_argument('-p', '--print-freq', default=8, type=int)
parser.add_argument('--gpu', default=None, type=int)

best_acc1 = 0


def main():
    global best_acc1
    args = parser.parse_args()
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True

    model = build_model(args.arch)
    if args.gpu is not None:
        torch.cuda.set_device(args.gpu)
        model = model.cuda(args.gpu)
    elif torch.cuda.is_available():
        model = torch.nn.DataParallel(model).cuda()

    criterion = nn.CrossEntropyLoss()
    if torch.cuda.is_available():
        criterion = criterion.cuda(args.gpu)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=1e-4)
    start_epoch = 0
    if args.resume:
        if os.path.isfile(args.resume):
            checkpoint = torch.load(args.resume)
            start_epoch = checkpoint['epoch']
            best_acc1 = checkpoint['best_acc1']
            model.load_state_dict(checkpoint['state_dict'])
            optimizer.load_state_dict(checkpoint['optimizer'])
            print("=> loaded checkpoint '{}' (epoch {})".format(args.resume, checkpoint['epoch']))
        else:
            print("=> no checkpoint found at '{}'".format(args.resume))

    train_loader, val_loader = get_loaders(args)

    for epoch in range(start_epoch, args.epochs):
        adjust_learning_rate(optimizer, epoch, args)
        train(train_loader, model, criterion, optimizer, epoch, args)
        acc1 = validate(val_loader, model, criterion, args)

        is_best = acc1 > best_acc1
        best_acc1 = max(acc1, best_acc1)
        save_checkpoint({
            'epoch': epoch + 1,
            'arch': args.arch,
            'state_dict': model.state_dict(),
            'best_acc1': best_acc1,
            'optimizer': optimizer.state_dict(),
        }, is_best)


def save_checkpoint(state, is_best, filename='checkpoint.pth.tar'):
    torch.save(state, filename)
    if is_best:
        shutil.copyfile(filename, 'model_best.pth.tar')


def adjust_learning_rate(optimizer, epoch, args):
    lr = args.lr * (0.1 ** (epoch // 2))
    for param_group in optimizer.param_groups:
        param_group['lr'] = lr


if __name__ == '__main__':
    main()
